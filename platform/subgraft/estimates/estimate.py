"""What the trainings of a plan will need: parameters, memory for each worker, updates, device-hours and cost."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, get_args

from subgraft.config.runtime import Runtime, ZeroStage
from subgraft.estimates.memory_estimate import Dimensions, activation_bytes, checkpoint_bytes, state_bytes
from subgraft.estimates.model_forecast import trained_model, training_parameters
from subgraft.estimates.throughput import Pace, pace
from subgraft.estimates.workload import Workload, workload
from subgraft.execution.plan import Plan
from subgraft.models.parameter_count import Parameters
from subgraft.recipes.trained import TrainedRecipe
from subgraft.store.step import Step, made_by
from subgraft.store.store import Store

if TYPE_CHECKING:
    from rich.table import Table

UNKNOWN = "unknown"


@dataclass(frozen=True)
class Estimate:
    """Of one training step, under one runtime.

    memory: bytes on each worker by ZeRO stage, activations included if their number is known; where a worker trains on
    CPUs, with the copy of which checkpoints are written. devices: that it uses.  exact: whether its parameters, and
    with them its memory, are known, and not only how much they are at most.
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
        """None where updates or their pace are unknown."""
        if self.workload.updates is None or self.pace is None:
            return None
        return self.workload.updates * self.pace.seconds * self.devices / 3600


def estimates(store: Store, plan: Plan, runtime: Runtime) -> list[Estimate]:
    """Of all trainings that a run would do, in the plan's order."""
    return [_estimate(store, step, runtime) for step in made_by(TrainedRecipe, plan.to_run)]


def _estimate(store: Store, step: Step[TrainedRecipe], runtime: Runtime) -> Estimate:
    (parameters, exact), work = training_parameters(store, step), workload(store, step)
    activations = _activations(store, step, runtime, work)
    memory = {stage: activations + _states(parameters, stage, runtime) for stage in get_args(ZeroStage)}
    devices = runtime.workers * (runtime.gpus_per_worker or 1)
    found = pace(store, step, runtime, parameters, work.tokens)
    return Estimate(step, parameters, memory, work, found, devices, exact)


def _states(parameters: Parameters, stage: ZeroStage, runtime: Runtime) -> int:
    # What is offloaded depends on the stage: stages that cannot offload are estimated without it.
    states = state_bytes(parameters, stage, runtime.workers, runtime.offload if stage else "none")
    copied = runtime.checkpoints_in_background and not runtime.gpus_per_worker
    return states + (checkpoint_bytes(parameters, stage, runtime.workers) if copied else 0)


def _activations(store: Store, step: Step[TrainedRecipe], runtime: Runtime, work: Workload) -> int:
    """Of the largest micro-batch of a worker; nothing where its tokens are not known."""
    training = step.recipe.training
    if work.tokens is None:
        return 0
    whole, micro = training.largest_batch_size, training.micro_batch_size
    part = 1 / runtime.workers if micro is None else micro / whole
    tokens = int(work.tokens * min(1.0, part))
    return activation_bytes(
        Dimensions.of(trained_model(store, step)), tokens, training.precision, runtime.activation_checkpointing
    )


def table(found: list[Estimate], runtime: Runtime) -> Table:
    """Estimates as people read them."""
    from rich.table import Table

    workers = "1 worker" if runtime.workers == 1 else f"each of {runtime.workers} workers"
    caption = f"GiB: of {workers}, under ZeRO 0 (or none), 1, 2, 3; + where activations come on top, not known yet"
    shown = Table(box=None, pad_edge=False, caption=caption, caption_justify="left")
    for heading in ("training", "parameters", "trained", "GiB", "updates", "device-hours", "cost", "pace"):
        shown.add_column(heading, overflow="fold")
    for each in found:
        shown.add_row(*_cells(each, runtime))
    return shown


def _cells(each: Estimate, runtime: Runtime) -> list[str]:
    hours, price = each.device_hours, runtime.price_per_device_hour
    more = "+" if each.workload.tokens is None else ""
    return [
        each.step.name,
        _number(each.parameters.total),
        ("" if each.exact else "at most ") + _number(each.parameters.trained),
        " ".join(f"{size / 2**30:.2f}{more}" for size in each.memory.values()),
        UNKNOWN if each.workload.updates is None else f"{each.workload.updates:,}",
        UNKNOWN if hours is None else f"{hours:.2f}",
        UNKNOWN if hours is None or price is None else f"{hours * price:.2f} {runtime.currency}",
        UNKNOWN if each.pace is None else f"{each.pace.seconds:.3g} s, {each.pace.known}",
    ]


def _number(parameters: int) -> str:
    return f"{parameters / 1e6:.1f} M" if parameters >= 100_000 else f"{parameters:,}"
