"""Estimates for the trainings of a plan: parameters, memory per worker, updates, device-hours and cost."""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple, get_args

from subgraft.config.runtime import Runtime, ZeroStage
from subgraft.modeling.families import Parameters
from subgraft.orchestration.estimates.memory_estimate import Dimensions, activation_bytes, checkpoint_bytes, state_bytes
from subgraft.orchestration.estimates.model_forecast import trained_model, training_parameters
from subgraft.orchestration.estimates.workload import Workload, workload
from subgraft.orchestration.execution.plan import Plan
from subgraft.orchestration.store.events import EVENTS, EventTail, Metrics, Started
from subgraft.orchestration.store.record import Record
from subgraft.orchestration.store.step import Step, made_by
from subgraft.orchestration.store.store import Store
from subgraft.pipeline.recipes.training import TrainedRecipe

if TYPE_CHECKING:
    from rich.table import Table


# Settings of a training that its time per update depends on.
SHAPE = ("batch_size", "batch_unit", "micro_batch_size", "max_length")
# Largest relative difference in parameters between similar models: another vocabulary, but not another size.
ALIKE = 0.25


class Pace(NamedTuple):
    """Seconds per update, and the source of that figure."""

    seconds: float
    known: str


def pace(
    store: Store, step: Step[TrainedRecipe], runtime: Runtime, parameters: Parameters, tokens: int | None
) -> Pace | None:
    """The best figure available; None if nothing was measured and `runtime.device_flops` is not set."""
    measured = _of_events(store, step)
    if measured is not None:
        return Pace(measured, "measured before it was stopped")
    records = list(store.records(step.stage.name))
    precision = _expected_precision(step, records)
    alike = [record for record in records if precision is not None and _computed_in(record) == precision]
    seconds = [second for record in alike for second in _alike(record, step, runtime, parameters)]
    if seconds:
        chosen = f", in {precision}" if step.recipe.training.precision == "auto" else ""
        return Pace(statistics.median(seconds), f"measured on {len(seconds)} like it{chosen}")
    if runtime.device_flops is None or tokens is None:
        return None
    # 2 operations forward and 4 backward for each parameter and token (Kaplan et al. 2020, section 2.1); each parameter
    # processes the tokens of one side. A generator of a frozen model needs as many: two passes forward, one backward.
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


UNKNOWN = "unknown"


@dataclass(frozen=True)
class Estimate:
    """The estimate of one training step under one runtime.

    Attributes:
        memory: Bytes on each worker by ZeRO stage, with activations if their number is known, and on CPUs with the
            copy that checkpoints are written from.
        devices: How many devices the training uses.
        exact: Whether parameters and memory are exact; otherwise they are upper bounds.
    """

    step: Step[TrainedRecipe]
    parameters: Parameters
    memory: Mapping[ZeroStage, int]
    workload: Workload
    pace: Pace | None
    devices: float
    exact: bool = True

    @property
    def device_hours(self) -> float | None:
        """None if the number of updates or their duration is unknown."""
        if self.workload.updates is None or self.pace is None:
            return None
        return self.workload.updates * self.pace.seconds * self.devices / 3600


def estimates(store: Store, plan: Plan, runtime: Runtime) -> list[Estimate]:
    """Estimates of all trainings that a run would execute, in the plan's order."""
    return [_estimate(store, step, runtime) for step in made_by(TrainedRecipe, plan.to_run)]


def _estimate(store: Store, step: Step[TrainedRecipe], runtime: Runtime) -> Estimate:
    (parameters, exact), work = training_parameters(store, step), workload(store, step)
    activations = _activations(store, step, runtime, work)
    memory = {stage: activations + _states(parameters, stage, runtime) for stage in get_args(ZeroStage)}
    devices = runtime.workers * (runtime.gpus_per_worker or 1)
    speed = pace(store, step, runtime, parameters, work.tokens)
    return Estimate(step, parameters, memory, work, speed, devices, exact)


def _states(parameters: Parameters, stage: ZeroStage, runtime: Runtime) -> int:
    # Offloading depends on the stage: stages that cannot offload are estimated without it.
    states = state_bytes(parameters, stage, runtime.workers, runtime.offload if stage else "none")
    copied = runtime.checkpoints_in_background and not runtime.gpus_per_worker
    return states + (checkpoint_bytes(parameters, stage, runtime.workers) if copied else 0)


def _activations(store: Store, step: Step[TrainedRecipe], runtime: Runtime, work: Workload) -> int:
    """Bytes for the largest micro-batch of a worker; 0 if its number of tokens is unknown."""
    training = step.recipe.training
    if work.tokens is None:
        return 0
    whole, micro = training.largest_batch_size, training.micro_batch_size
    part = 1 / runtime.workers if micro is None else micro / whole
    tokens = int(work.tokens * min(1.0, part))
    return activation_bytes(
        Dimensions.of(trained_model(store, step)), tokens, training.precision, runtime.activation_checkpointing
    )


def table(trainings: list[Estimate], runtime: Runtime) -> Table:
    """A table of estimates: equal trainings share a row, and the last row is the total."""
    from subgraft.base.terminal import Sheet

    shown = Sheet(box=None, pad_edge=False, caption=_caption(runtime), caption_justify="left")
    shown.add_column("training", overflow="fold")
    for heading in ("parameters", "trained", "GiB", "updates", "device-hours", "cost"):
        shown.add_column(heading, justify="right", no_wrap=True)
    shown.add_column("pace", overflow="fold")
    alike: dict[tuple[str, ...], list[Estimate]] = {}
    for each in trainings:
        alike.setdefault((each.step.stage.name, *_cells(each, runtime)), []).append(each)
    for (_, parameters, trained, memory, updates, known), same in alike.items():
        updates_each = f"{updates} each" if len(same) > 1 and updates != UNKNOWN else updates
        row = (_named([each.step.name for each in same]), parameters, trained, memory, updates_each)
        shown.add_row(*row, *_costs(same, runtime), known)
    if len(trainings) > 1:
        total = f"total of {len(trainings)} trainings"
        shown.add_row(total, "", "", "", "", *_costs(trainings, runtime), "")
    return shown


def _caption(runtime: Runtime) -> str:
    workers = "1 worker" if runtime.workers == 1 else f"each of {runtime.workers} workers"
    stages = ", under ZeRO 0 (or none), 1, 2, 3" if _is_divided(runtime) else ""
    activations = "+ where activations come on top, not known yet"
    return f"GiB: of {workers}{stages}; {activations}; device-hours and cost: of all trainings of a row"


def _is_divided(runtime: Runtime) -> bool:
    """Whether ZeRO's stages differ in what a worker holds: they divide and offload."""
    return runtime.workers > 1 or runtime.offload != "none"


def _cells(each: Estimate, runtime: Runtime) -> tuple[str, ...]:
    more = "+" if each.workload.tokens is None else ""
    memory = list(each.memory.values()) if _is_divided(runtime) else [each.memory[0]]
    return (
        _number(each.parameters.total),
        ("" if each.exact else "at most ") + _number(each.parameters.trained),
        " ".join(f"{size / 2**30:.2f}{more}" for size in memory),
        UNKNOWN if each.workload.updates is None else f"{each.workload.updates:,}",
        UNKNOWN if each.pace is None else f"{each.pace.seconds:.3g} s, {each.pace.known}",
    )


def _costs(trainings: Sequence[Estimate], runtime: Runtime) -> tuple[str, str]:
    """Total device-hours and cost of trainings; a lower bound if some are unknown."""
    known = [each.device_hours for each in trainings if each.device_hours is not None]
    if not known:
        return UNKNOWN, UNKNOWN
    least, price = "≥ " if len(known) < len(trainings) else "", runtime.price_per_device_hour
    cost = UNKNOWN if price is None else f"{least}{sum(known) * price:.2f} {runtime.currency}"
    return f"{least}{sum(known):.2f}", cost


def _named(steps: Sequence[str]) -> str:
    """The names of equal trainings in one line: their common first word, the rest of each name, and the seeds."""
    seeds: dict[str, list[str]] = {}
    for step in steps:
        name, _, seed = step.partition(" seed ")
        seeds.setdefault(name, []).append(seed)
    of_all = set(map(tuple, seeds.values()))
    if len(of_all) > 1:
        return ", ".join(steps)
    first, *_ = words = [name.partition(" ") for name in seeds]
    names = [name for name, _, _ in words] if first[1] == "" else [rest for _, _, rest in words]
    kind = "" if first[1] == "" else f"{first[0]} "
    chosen = [seed for seed in of_all.pop() if seed]
    seed_list = f", seed{'s' if len(chosen) > 1 else ''} {', '.join(chosen)}" if chosen else ""
    return f"{kind}{', '.join(names)}{seed_list}"


def _number(parameters: int) -> str:
    return f"{parameters / 1e6:.1f} M" if parameters >= 100_000 else f"{parameters:,}"
