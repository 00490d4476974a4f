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
from subgraft.training.stage import TrainedStage

if TYPE_CHECKING:
    from subgraft.base.terminal import Table


# Settings of a training that its time per update depends on.
SHAPE = ("batch_size", "batch_unit", "micro_batch_size", "max_length")
# The largest relative difference in parameters between models of similar size: vocabularies may differ.
MAX_SIZE_DIFFERENCE = 0.25


class UpdateTime(NamedTuple):
    """Seconds per update, and the source of that figure."""

    seconds: float
    source: str


def update_time_of(
    store: Store, step: Step[TrainedStage], runtime: Runtime, parameters: Parameters, tokens: int | None
) -> UpdateTime | None:
    """The time of an update: measured, or computed from `runtime.device_flops`; None if neither is possible."""
    measured = _update_time_from_events(store, step)
    if measured is not None:
        return UpdateTime(measured, "measured before it was stopped")
    records = list(store.records(step.stage.stage_name))
    precision = _expected_precision(step, records)
    same_precision = [
        record for record in records if precision is not None and _effective_precision(record) == precision
    ]
    seconds = [
        each for record in same_precision for each in _update_times_of_similar(record, step, runtime, parameters)
    ]
    if seconds:
        precision_note = f", in {precision}" if step.stage.training.precision == "auto" else ""
        return UpdateTime(statistics.median(seconds), f"measured on {len(seconds)} like it{precision_note}")
    if runtime.device_flops is None or tokens is None:
        return None
    # 2 operations forward and 4 backward for each parameter and token (Kaplan et al. 2020, section 2.1); each parameter
    # processes the tokens of one side. A generator of a frozen model needs as many: two passes forward, one backward.
    return UpdateTime(6 * parameters.total * tokens / (runtime.device_flops * runtime.workers), "runtime.device_flops")


def _expected_precision(step: Step[TrainedStage], records: Sequence[Record]) -> str | None:
    """The precision of a step; for `auto` the one that was selected last, None if there is none yet."""
    configured = step.stage.training.precision
    if configured != "auto":
        return configured
    automatic = (record for record in records if _configured_precision(record) == "auto")
    last = max(automatic, key=lambda record: record.finished, default=None)
    return None if last is None else _effective_precision(last)


def _configured_precision(record: Record) -> str | None:
    precision: str | None = record.recipe.get("training", {}).get("precision")
    return precision


def _effective_precision(record: Record) -> str | None:
    """The precision of a finished step; None for an `auto` whose choice was not recorded."""
    configured = _configured_precision(record)
    return next(_selected_precisions(record.summary), None) if configured == "auto" else configured


def _selected_precisions(summary: Mapping[str, Any]) -> Iterator[str]:
    """The precision that `auto` selected, for every training of a summary."""
    for name, inner in summary.items():
        if isinstance(inner, Mapping):
            yield from (inner["chosen"],) if name == "precision" else _selected_precisions(inner)


def _update_time_from_events(store: Store, step: Step) -> float | None:
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


def _update_times_of_similar(
    record: Record, step: Step[TrainedStage], runtime: Runtime, parameters: Parameters
) -> Iterator[float]:
    """Seconds per update of a finished step, if it has the same shape and ran on the same kind of device."""
    recorded = record.recipe.get("training", {})
    configured = step.stage.training.model_dump(mode="json")
    device = "cuda" if runtime.gpus_per_worker else "cpu"
    if any(recorded.get(key) != configured.get(key) for key in SHAPE) or not record.provenance.device.startswith(
        device
    ):
        return
    recorded_parameters = record.summary.get("parameters")
    if recorded_parameters is not None:
        is_similar = abs(recorded_parameters - parameters.total) <= MAX_SIZE_DIFFERENCE * parameters.total
    else:  # over a frozen model
        is_similar = record.inputs["model"]["fingerprint"] == step.inputs["model"].fingerprint
    if is_similar:
        yield from _seconds_per_update(record.summary)


def _seconds_per_update(summary: Mapping[str, Any]) -> Iterator[float]:
    """Seconds per update of every training in a summary: one, or one per side."""
    if summary.get("steps") and "training_seconds" in summary:
        yield summary["training_seconds"] / summary["steps"]
    for inner in summary.values():
        if isinstance(inner, Mapping):
            yield from _seconds_per_update(inner)


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

    step: Step[TrainedStage]
    parameters: Parameters
    memory: Mapping[ZeroStage, int]
    workload: Workload
    update_time: UpdateTime | None
    devices: float
    exact: bool = True

    @property
    def device_hours(self) -> float | None:
        """None if the number of updates or their duration is unknown."""
        if self.workload.updates is None or self.update_time is None:
            return None
        return self.workload.updates * self.update_time.seconds * self.devices / 3600


def estimates(store: Store, plan: Plan, runtime: Runtime) -> list[Estimate]:
    """Estimates of all trainings that a run would execute, in the plan's order."""
    devices, estimated = runtime.workers * (runtime.gpus_per_worker or 1), list[Estimate]()
    for step in made_by(TrainedStage, plan.to_run):
        (parameters, exact), work = training_parameters(store, step), workload(store, step)
        activations = _activations(store, step, runtime, work)
        memory = {stage: activations + _states(parameters, stage, runtime) for stage in get_args(ZeroStage)}
        update_time = update_time_of(store, step, runtime, parameters, work.tokens)
        estimated.append(Estimate(step, parameters, memory, work, update_time, devices, exact))
    return estimated


def _states(parameters: Parameters, stage: ZeroStage, runtime: Runtime) -> int:
    # Offloading depends on the stage: stages that cannot offload are estimated without it.
    states = state_bytes(parameters, stage, runtime.workers, runtime.offload if stage else "none")
    copied = runtime.checkpoints_in_background and not runtime.gpus_per_worker
    return states + (checkpoint_bytes(parameters, stage, runtime.workers) if copied else 0)


def _activations(store: Store, step: Step[TrainedStage], runtime: Runtime, work: Workload) -> int:
    """Bytes for the largest micro-batch of a worker; 0 if its number of tokens is unknown."""
    training = step.stage.training
    if work.tokens is None:
        return 0
    batch_size, micro = training.largest_batch_size, training.micro_batch_size
    fraction = 1 / runtime.workers if micro is None else micro / batch_size
    tokens = int(work.tokens * min(1.0, fraction))
    dimensions, recomputed = Dimensions.of(trained_model(store, step)), runtime.activation_checkpointing
    return activation_bytes(dimensions, tokens, training.precision, recomputed, on_gpu=bool(runtime.gpus_per_worker))


def table(trainings: list[Estimate], runtime: Runtime) -> Table:
    """A table of estimates: equal trainings share a row, and the last row is the total."""
    from subgraft.base.terminal import Table

    workers = "1 worker" if runtime.workers == 1 else f"each of {runtime.workers} workers"
    stages = ", under ZeRO 0 (or none), 1, 2, 3" if _is_divided(runtime) else ""
    activations = "+ where activations come on top, not known yet"
    table = Table(
        box=None,
        pad_edge=False,
        caption=f"GiB: of {workers}{stages}; {activations}; device-hours and cost: of all trainings of a row",
        caption_justify="left",
    )
    table.add_column("training", overflow="fold")
    for heading in ("parameters", "trained", "GiB", "updates", "device-hours", "cost"):
        table.add_column(heading, justify="right", no_wrap=True)
    table.add_column("update time", overflow="fold")
    groups: dict[tuple[str, ...], list[Estimate]] = {}
    for estimate in trainings:
        groups.setdefault((estimate.step.stage.stage_name, *_cells(estimate, runtime)), []).append(estimate)
    for (_, parameters, trained, memory, updates, source), group in groups.items():
        updates_each = f"{updates} each" if len(group) > 1 and updates != UNKNOWN else updates
        row = (_join_names([estimate.step.name for estimate in group]), parameters, trained, memory, updates_each)
        table.add_row(*row, *_costs(group, runtime), source)
    if len(trainings) > 1:
        total = f"total of {len(trainings)} trainings"
        table.add_row(total, "", "", "", "", *_costs(trainings, runtime), "")
    return table


def _is_divided(runtime: Runtime) -> bool:
    """Whether ZeRO's stages differ in the memory of a worker, because they shard or offload."""
    return runtime.workers > 1 or runtime.offload != "none"


def _cells(estimate: Estimate, runtime: Runtime) -> tuple[str, ...]:
    open_ended = "+" if estimate.workload.tokens is None else ""
    memory = list(estimate.memory.values()) if _is_divided(runtime) else [estimate.memory[0]]
    return (
        _number(estimate.parameters.total),
        ("" if estimate.exact else "at most ") + _number(estimate.parameters.trained),
        " ".join(f"{size / 2**30:.2f}{open_ended}" for size in memory),
        UNKNOWN if estimate.workload.updates is None else f"{estimate.workload.updates:,}",
        UNKNOWN
        if estimate.update_time is None
        else f"{estimate.update_time.seconds:.3g} s, {estimate.update_time.source}",
    )


def _costs(trainings: Sequence[Estimate], runtime: Runtime) -> tuple[str, str]:
    """Total device-hours and cost of trainings; a lower bound if some are unknown."""
    known = [estimate.device_hours for estimate in trainings if estimate.device_hours is not None]
    if not known:
        return UNKNOWN, UNKNOWN
    lower_bound, price = "≥ " if len(known) < len(trainings) else "", runtime.price_per_device_hour
    cost = UNKNOWN if price is None else f"{lower_bound}{sum(known) * price:.2f} {runtime.currency}"
    return f"{lower_bound}{sum(known):.2f}", cost


def _join_names(steps: Sequence[str]) -> str:
    """Join the names of equal trainings: their common first word, the rest of each name, and the seeds."""
    seeds: dict[str, list[str]] = {}
    for step in steps:
        name, _, seed = step.partition(" seed ")
        seeds.setdefault(name, []).append(seed)
    seed_lists = set(map(tuple, seeds.values()))
    if len(seed_lists) > 1:
        return ", ".join(steps)
    first, *_ = words = [name.partition(" ") for name in seeds]
    names = [name for name, _, _ in words] if first[1] == "" else [rest for _, _, rest in words]
    kind = "" if first[1] == "" else f"{first[0]} "
    common_seeds = [seed for seed in seed_lists.pop() if seed]
    seed_list = f", seed{'s' if len(common_seeds) > 1 else ''} {', '.join(common_seeds)}" if common_seeds else ""
    return f"{kind}{', '.join(names)}{seed_list}"


def _number(parameters: int) -> str:
    return f"{parameters / 1e6:.1f} M" if parameters >= 100_000 else f"{parameters:,}"
