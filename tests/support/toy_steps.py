"""Stages of tests, and what a store holds of a step that is in it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from subgraft.orchestration.store.record import Record
from subgraft.orchestration.store.step import Step
from subgraft.orchestration.store.store import Store
from subgraft.training.context import Json
from subgraft.training.stage import Stage


@dataclass(frozen=True)
class ToyKind:
    """The name and revision of a test's stage, and the function that makes its artifact."""

    name: str
    revision: int
    function: Callable[..., Mapping[str, Json]]
    distributed: bool = False

    def of(self, fields: Stage) -> Stage:
        """The stage with these fields."""
        properties: dict[str, Any] = {
            "__module__": type(fields).__module__,
            "stage_name": self.name,
            "revision": self.revision,
            "distributed": self.distributed,
            "run": lambda *arguments: self.function(*arguments),
        }
        kind: type[Stage] = type(type(fields).__name__, (type(fields),), properties)
        return kind.model_validate(fields.model_dump())


def nothing(*arguments: object) -> dict[str, Json]:
    """As a stage's function."""
    return {}


def record_of(store: Store, step: Step) -> Record:
    """The record of a step that has been made."""
    record = store.find(step)
    assert record is not None, f"{step.name} has not been made"
    return record
