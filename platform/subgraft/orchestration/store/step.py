"""A step of an experiment: a stage and the steps it reads. The runner executes it."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Generic, cast

from typing_extensions import TypeVar

from subgraft.training.stage import S, Stage

if TYPE_CHECKING:
    from subgraft.training.context import Json


A = TypeVar("A", bound=Stage)


@dataclass(frozen=True, eq=False)
class Step(Generic[S]):
    """One artifact to make.

    Name and labels are for display (labels become tracking tags: system, seed, ...) and not part of the fingerprint.
    """

    stage: S
    name: str
    inputs: Mapping[str, Step] = field(default_factory=dict)
    labels: Mapping[str, str] = field(default_factory=dict)

    @cached_property
    def fingerprint(self) -> str:
        """SHA-256 hex over the stage's name and revision, the recipe, and the inputs' fingerprints; never code text."""
        return sha256_of(
            {
                "stage": self.stage.stage_name,
                "revision": self.stage.revision,
                "recipe": self.stage.model_dump(mode="json"),
                "inputs": {role: step.fingerprint for role, step in self.inputs.items()},
            }
        )

    def input(self, role: str, stage: type[A]) -> Step[A]:
        """The input of a role. Raises TypeError if a stage of another class makes it."""
        step = self.inputs[role]
        if not isinstance(step.stage, stage):
            raise TypeError(f"{self.name}: its {role} is made by a {type(step.stage).__name__}")
        return cast("Step[A]", step)


def made_by(stage: type[A], steps: Iterable[Step]) -> list[Step[A]]:
    """The steps with a stage of this class, in order."""
    return [cast("Step[A]", step) for step in steps if isinstance(step.stage, stage)]


def canonical_json(value: Json) -> str:
    """JSON with sorted keys and no white space, equal for equal values. Raises ValueError for NaN and infinity."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)


def sha256_of(value: Json) -> str:
    """SHA-256 hex of the canonical JSON."""
    return hashlib.sha256(canonical_json(value).encode()).hexdigest()


def flatten(value: Json, prefix: str = "") -> dict[str, Json]:
    """Nested mappings as one mapping with dotted keys; lists and empty mappings stay values."""
    if not isinstance(value, Mapping) or (prefix and not value):
        return {prefix: value}
    flat: dict[str, Json] = {}
    for key, inner in value.items():
        flat.update(flatten(inner, f"{prefix}.{key}" if prefix else str(key)))
    return flat


def in_order(targets: Iterable[Step]) -> list[Step]:
    """The targets and their inputs in a fixed topological order, inputs first, each fingerprint once."""
    ordered: dict[str, Step] = {}

    def visit(step: Step) -> None:
        if step.fingerprint not in ordered:
            for role in sorted(step.inputs):
                visit(step.inputs[role])
            ordered[step.fingerprint] = step

    for target in targets:
        visit(target)
    return list(ordered.values())
