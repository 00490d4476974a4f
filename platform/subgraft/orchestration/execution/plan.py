"""The plan of a run: each step is cached, to run, or stale, with the recipe's differences from the stored one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING

from subgraft.orchestration.store.events import EVENTS
from subgraft.orchestration.store.record import Record
from subgraft.orchestration.store.step import Step, flatten, in_order
from subgraft.orchestration.store.store import Store

if TYPE_CHECKING:
    from subgraft.base.terminal import Table
    from subgraft.training.context import Json

# An artifact with more differences belongs to another experiment rather than to an earlier state of this one.
MAX_DIFFERENCES = 4


class State(Enum):
    """The state of a step in a plan.

    STALE: to run, and the store holds the result of a slightly different recipe. UNNEEDED: absent, and no step to run
    reads it.
    """

    CACHED = "cached"
    TO_RUN = "to run"
    STALE = "stale"
    UNNEEDED = "not needed"


@dataclass(frozen=True, slots=True)
class Entry:
    """A step with its state.

    Attributes:
        record: Of a cached step.
        differences: Of a stale step: field to (stored, current).
        resumes: Whether an earlier attempt left a work directory.
    """

    step: Step
    state: State
    record: Record | None = None
    differences: Mapping[str, tuple[Json, Json]] | None = None
    resumes: bool = False


@dataclass(frozen=True, slots=True)
class Plan:
    """Entries in the order of execution: inputs first."""

    entries: tuple[Entry, ...]

    @property
    def to_run(self) -> tuple[Step, ...]:
        """The steps a run would execute."""
        return tuple(entry.step for entry in self.entries if entry.state in (State.TO_RUN, State.STALE))

    @property
    def cached(self) -> Mapping[str, Record]:
        """Records of cached steps, by fingerprint."""
        return {entry.step.fingerprint: entry.record for entry in self.entries if entry.record is not None}


def make_plan(store: Store, targets: Sequence[Step]) -> Plan:
    """Look up the targets and their inputs. The inputs of a cached step may be absent."""
    steps = in_order(targets)
    records = {step.fingerprint: store.find(step) for step in steps}
    needed = {target.fingerprint for target in targets}
    for step in reversed(steps):
        if step.fingerprint in needed and records[step.fingerprint] is None:
            needed.update(source.fingerprint for source in step.inputs.values())
    current = frozenset(records)
    return Plan(
        tuple(_entry(store, step, records[step.fingerprint], step.fingerprint in needed, current) for step in steps)
    )


def _entry(store: Store, step: Step, record: Record | None, needed: bool, current: frozenset[str]) -> Entry:
    if record is not None:
        return Entry(step, State.CACHED, record)
    if not needed:
        return Entry(step, State.UNNEEDED)
    resumes = (store.work(step) / EVENTS).exists()
    stored = [record for record in store.records(step.stage.stage_name) if record.fingerprint not in current]
    nearest = min((_differences(step, record) for record in stored), key=len, default=None)
    if nearest is None or len(nearest) > MAX_DIFFERENCES:
        return Entry(step, State.TO_RUN, resumes=resumes)
    return Entry(step, State.STALE, differences=nearest, resumes=resumes)


def _differences(step: Step, record: Record) -> dict[str, tuple[Json, Json]]:
    current = flatten(step.stage.model_dump(mode="json"))
    current.update({f"input {role}": source.fingerprint[:12] for role, source in step.inputs.items()})
    stored = flatten(record.recipe)
    stored.update({f"input {role}": source["fingerprint"][:12] for role, source in record.inputs.items()})
    current["revision"], stored["revision"] = step.stage.revision, record.revision
    keys = sorted(current.keys() | stored.keys())
    return {key: (stored.get(key), current.get(key)) for key in keys if stored.get(key) != current.get(key)}


def table(plan: Plan) -> Table:
    """The plan as a table for the terminal."""
    from subgraft.base.terminal import Table

    table = Table(box=None, pad_edge=False)
    for heading in ("stage", "step", "state", "why"):
        table.add_column(heading, overflow="fold")
    for entry in plan.entries:
        differences = (entry.differences or {}).items()
        reasons = [f"{key}: {_abbreviate(old)} → {_abbreviate(new)}" for key, (old, new) in differences]
        reasons += ["was started before"] if entry.resumes else []
        if entry.record is not None:
            reasons = [f"made in {entry.record.seconds:.0f} s, {entry.record.finished}"]
        table.add_row(entry.step.stage.stage_name, entry.step.name, entry.state.value, "; ".join(reasons))
    return table


def describe(entry: Entry) -> dict[str, Json]:
    """The entry under stable names, as `subgraft plan --json` prints it."""
    differences = entry.differences or {}
    return {
        "stage": entry.step.stage.stage_name,
        "step": entry.step.name,
        "state": entry.state.value,
        "fingerprint": entry.step.fingerprint,
        "seconds": entry.record.seconds if entry.record is not None else None,
        "differences": {key: {"stored": old, "wanted": new} for key, (old, new) in differences.items()},
        "resumes": entry.resumes,
    }


def _abbreviate(value: Json) -> str:
    text = str(value)
    return text if len(text) <= 40 else text[:37] + "..."
