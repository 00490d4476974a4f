"""What the training stages share: engine, device, checkpoints, dev scores and the record of a curve."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path

import torch
import torch.distributed as dist
from torch import Tensor, nn

from subgraft.config.training import ROWS_IN_PARTS, TrainingSettings
from subgraft.errors import OperationalError, UserError
from subgraft.stages.context import Context, Json
from subgraft.training.checkpoint import Checkpoints
from subgraft.training.dry_run import out_of_memory_told
from subgraft.training.engine import Engine, PlainEngine, recompute_activations
from subgraft.training.loop import Hooks, Outcome, Trainer
from subgraft.training.row_updates import RowUpdates
from subgraft.training.schedule import Data, batch_plan

CURVE = "curve.json"


def device() -> torch.device:
    """The GPU where there is one."""
    return torch.device("cuda" if torch.cuda.is_available() else "cpu")


def fit(
    module: nn.Module,
    weights: Mapping[str, float],
    data: Data,
    settings: TrainingSettings,
    context: Context,
    *,
    group: str,
    seed: int,
    evaluate: Callable[[], dict[str, float]] | None = None,
    select: str | None = None,
    lowest: bool = False,
    part: str = "all",
    steps_before: int = 0,
    tables: Collection[Tensor] = (),
    row_updates: Sequence[RowUpdates] = (),
) -> Outcome:
    """Train `module` in this step's work directory, from its last checkpoint if there is one.

    group: what the settings are called in a configuration.  select, lowest: the dev score that picks the best weights,
    and whether its lowest is best.  part: names the checkpoints of one of several trainings of
    a step.  steps_before: what was trained before this, for the record of a curve that goes on.  tables: what
    `embedding_learning_rate` is for.  row_updates: rows that follow the optimizer in part. Raises OperationalError
    where memory does not suffice for the largest batch, and UserError where the engine cannot treat single rows.
    """
    if context.runtime.activation_checkpointing:
        recompute_activations(module.model)  # type: ignore[arg-type]
    if device().type == "cpu" and settings.precision == "bf16":
        # The fused kernel's backward pass is slow there: a step takes half as long again (benchmarks/training_step.py).
        module.model.set_attn_implementation("eager")  # type: ignore[union-attr,operator]
    with out_of_memory_told(group, settings, context.runtime, device()):
        engine = _engine(module, settings, context, tables, row_updates)
    trainer = Trainer(
        module,
        weights,
        data,
        settings,
        engine,
        Checkpoints(context.work / "checkpoints" / part, context.warn),
        seed=seed,
        checkpoint_seconds=context.runtime.checkpoint_seconds,
        hooks=Hooks(evaluate, select, lowest, partial(_recorded, context, steps_before), context.progress),
    )
    batch = trainer.largest_batch()
    with out_of_memory_told(group, settings, context.runtime, device(), batch.shape):
        trainer.dry_run(batch)
    return trainer.run()


def _recorded(context: Context, steps_before: int, step: int, values: Mapping[str, float]) -> None:
    context.metrics(steps_before + step, values)


def _engine(
    module: nn.Module,
    settings: TrainingSettings,
    context: Context,
    tables: Collection[Tensor],
    row_updates: Sequence[RowUpdates],
) -> Engine:
    runtime = context.runtime
    if runtime.zero_stage is None:
        return PlainEngine(module.to(device()), settings, device(), tables, row_updates)
    if row_updates:
        raise UserError(ROWS_IN_PARTS)
    from subgraft.training.deepspeed_engine import DeepSpeedEngine

    return DeepSpeedEngine(module, settings, device(), runtime.zero_stage, tables, runtime.offload)


def is_writer() -> bool:
    """Whether this worker writes the step's output: rank 0 does."""
    return not dist.is_initialized() or dist.get_rank() == 0


def write_curve(outcome: Outcome, out: Path, name: str = CURVE) -> dict[str, Json]:
    """Keep a training's curve beside its weights; returns what the record says of it."""
    if is_writer():
        (out / name).write_text(json.dumps([asdict(point) for point in outcome.curve], indent=1) + "\n")
    return {"steps": outcome.steps, "best_step": outcome.best_step, "training_seconds": round(outcome.seconds, 1)}


def held_out_mean(
    module: nn.Module, data: Data, settings: TrainingSettings, told: str
) -> Callable[[], dict[str, float]]:
    """What tells, under the name `told`, the mean of a module's one loss over held-out examples."""
    plan = batch_plan(data.lengths, settings, seed=0)

    @torch.no_grad()
    def mean() -> dict[str, float]:
        where = next(module.parameters()).device
        total, count = 0.0, 0
        for indices in plan.epoch(0):
            batch = data.batch(indices, 0)
            ((name, counted),) = batch.counts.items()
            with torch.autocast(where.type, dtype=torch.bfloat16, enabled=settings.precision == "bf16"):
                total += float(module(batch.to(where))[name])
            count += counted
        return {told: total / max(count, 1)}

    return mean


@dataclass(frozen=True)
class KeptWeights:
    """What a finetuning kept: the first weights with its best dev BLEU. At step 0 they are those it began with."""

    step: int
    dev_bleu: float


def kept_weights(finetuned: Path) -> KeptWeights:
    """The step and dev BLEU of a finetuned model's weights, from the curve beside them."""
    curve = json.loads((finetuned / CURVE).read_text())
    if not curve:
        raise OperationalError("a finetuning without dev scores", where=str(finetuned))
    best = max(curve, key=lambda point: float(point["values"]["bleu"]))
    return KeptWeights(int(best["step"]), float(best["values"]["bleu"]))
