"""A stage that makes nothing, and what a store holds of a step that is in it."""

from __future__ import annotations

from subgraft.orchestration.store.record import Record
from subgraft.orchestration.store.step import Step
from subgraft.orchestration.store.store import Store
from subgraft.training.context import Json


def nothing(*arguments: object) -> dict[str, Json]:
    """As a stage's function."""
    return {}


def record_of(store: Store, step: Step) -> Record:
    """The record of a step that has been made."""
    record = store.find(step)
    assert record is not None, f"{step.name} has not been made"
    return record
