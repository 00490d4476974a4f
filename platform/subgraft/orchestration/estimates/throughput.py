"""Seconds per update: measured on this step before it was stopped, measured on a similar one, or calculated."""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from subgraft.config.runtime import Runtime
from subgraft.modeling.families import Parameters
from subgraft.orchestration.store.events import EVENTS, EventTail, Metrics, Started
from subgraft.orchestration.store.record import Record
from subgraft.orchestration.store.store import Store

if TYPE_CHECKING:
    from subgraft.orchestration.store.step import Step
    from subgraft.pipeline.recipes.training import TrainedRecipe

# What a step's time depends on, of the settings of its training.
SHAPE = ("batch_size", "batch_unit", "micro_batch_size", "max_length")
# A model of another vocabulary is still alike, one of another size is not.
ALIKE = 0.25


class Pace(NamedTuple):
    """seconds of an update, and how that is known."""

    seconds: float
    known: str


def pace(
    store: Store, step: Step[TrainedRecipe], runtime: Runtime, parameters: Parameters, tokens: int | None
) -> Pace | None:
    """The best figure available; None if nothing was measured and `runtime.device_flops` is not set."""
    begun = _of_events(store, step)
    if begun is not None:
        return Pace(begun, "measured before it was stopped")
    records = list(store.records(step.stage.name))
    precision = _expected_precision(step, records)
    alike = [record for record in records if precision is not None and _computed_in(record) == precision]
    seconds = [second for record in alike for second in _alike(record, step, runtime, parameters)]
    if seconds:
        found = f", in {precision}" if step.recipe.training.precision == "auto" else ""
        return Pace(statistics.median(seconds), f"measured on {len(seconds)} like it{found}")
    if runtime.device_flops is None or tokens is None:
        return None
    # Forward 2, backward 4 operations for each parameter and token (Kaplan et al. 2020, section 2.1). Here a parameter
    # is met by the tokens of one side. With a frozen model a generator needs two passes forward and one back: as many.
    return Pace(6 * parameters.total * tokens / (runtime.device_flops * runtime.workers), "runtime.device_flops")


def _expected_precision(step: Step[TrainedRecipe], records: Sequence[Record]) -> str | None:
    """The precision of a step; for `auto` the one chosen last, None if there is none yet."""
    asked = step.recipe.training.precision
    if asked != "auto":
        return asked
    last = max((record for record in records if _asked(record) == "auto"), key=lambda one: one.finished, default=None)
    return None if last is None else _computed_in(last)


def _asked(record: Record) -> str | None:
    asked: str | None = record.recipe.get("training", {}).get("precision")
    return asked


def _computed_in(record: Record) -> str | None:
    """The precision of a finished step; None for an `auto` whose choice was not recorded."""
    asked = _asked(record)
    return next(_chosen(record.summary), None) if asked == "auto" else asked


def _chosen(summary: Mapping[str, Any]) -> Iterator[str]:
    """The precision that `auto` chose, for every training of a summary."""
    for name, inner in summary.items():
        if isinstance(inner, Mapping):
            yield from (inner["chosen"],) if name == "precision" else _chosen(inner)


def _of_events(store: Store, step: Step) -> float | None:
    """Seconds per update in the last attempt with two or more updates, including evaluations between them."""
    attempts: list[list[Metrics]] = [[]]
    for event in EventTail(store.work(step) / EVENTS).read():
        if isinstance(event, Started):
            attempts.append([])
        elif isinstance(event, Metrics) and any(name.startswith("train_") for name in event.values):
            attempts[-1].append(event)
    for metrics in reversed(attempts):
        if metrics and metrics[-1].step > metrics[0].step:
            return (metrics[-1].time - metrics[0].time) / (metrics[-1].step - metrics[0].step)
    return None


def _alike(record: Record, step: Step[TrainedRecipe], runtime: Runtime, parameters: Parameters) -> Iterator[float]:
    """Seconds per update of a finished step, if it has the same shape and ran on the same kind of device."""
    before = record.recipe.get("training", {})
    wanted = step.recipe.training.model_dump(mode="json")
    device = "cuda" if runtime.gpus_per_worker else "cpu"
    if any(before.get(key) != wanted.get(key) for key in SHAPE) or not record.provenance.device.startswith(device):
        return
    had = record.summary.get("parameters")
    if had is not None:
        alike = abs(had - parameters.total) <= ALIKE * parameters.total
    else:  # over a frozen model
        alike = record.inputs["model"]["fingerprint"] == step.inputs["model"].fingerprint
    if alike:
        yield from _seconds(record.summary)


def _seconds(summary: Mapping[str, Any]) -> Iterator[float]:
    """Seconds per update of every training in a summary: one, or one per side."""
    if summary.get("steps") and "training_seconds" in summary:
        yield summary["training_seconds"] / summary["steps"]
    for inner in summary.values():
        if isinstance(inner, Mapping):
            yield from _seconds(inner)
