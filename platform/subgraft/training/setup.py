"""The set-up that training stages share: engine, device, checkpoints, dev scores, and the file of a curve."""

from __future__ import annotations

import json
import resource
import sys
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn

from subgraft.base.errors import UserError
from subgraft.config.training import ROWS_IN_PARTS, ModelTrainingSettings, PretrainSettings, TrainingSettings
from subgraft.data.text.batches import BatchFiles
from subgraft.modeling.families import family_of
from subgraft.modeling.precision import autocast, fuses_attention, products_by
from subgraft.modeling.sides import set_hidden_dropout
from subgraft.training.auto_precision import describe_precision
from subgraft.training.checkpoint import Checkpoints
from subgraft.training.context import Context, Json
from subgraft.training.engine import Engine, PlainEngine, recompute_activations
from subgraft.training.loop import Hooks, Trainer
from subgraft.training.memory_probe import explain_out_of_memory
from subgraft.training.objectives.compute.distributed import rank_and_world, sums_over_batches
from subgraft.training.optimizers import SCHEDULES
from subgraft.training.parameter_groups import ParameterRates
from subgraft.training.progress import CURVE, BatchCallback, Outcome, Selection
from subgraft.training.rare_rows import RowUpdates
from subgraft.training.schedule import Data, batch_plan

# The name of the part in a step that has only one training.
WHOLE = "all"


def device() -> torch.device:
    """The GPU if there is one, else the CPU."""
    return torch.device("cuda" if torch.cuda.is_available() else "cpu")


def run_training(
    module: nn.Module,
    weights: Mapping[str, float],
    data: Data,
    settings: TrainingSettings,
    context: Context,
    *,
    group: str,
    seed: int,
    evaluate: Callable[[], dict[str, float]] | None = None,
    select: Selection | None = None,
    part: str = WHOLE,
    steps_before: int = 0,
    tables: Collection[Tensor] = (),
    row_updates: Sequence[RowUpdates] = (),
    callback: BatchCallback | None = None,
    save: Callable[[int], None] | None = None,
) -> Outcome:
    """Train `module` in this step's work directory, starting from its last checkpoint if there is one.

    Args:
        module: Computes the losses.
        weights: The weights of the losses.
        data: The examples.
        settings: The training settings.
        context: The context of the step.
        group: The section of the settings in a configuration, for messages.
        seed: The seed of the order of examples.
        evaluate: Computes dev scores.
        select: The dev score that selects the best weights.
        part: The name of this training among several of the step, in progress reports and checkpoints.
        steps_before: The number of steps of an earlier training whose curve this one continues.
        tables: The parameters that have `embedding_learning_rate`.
        row_updates: The rows whose updates are regularised.
        callback: A hook that rewrites batches.
        save: Saves the model at a step; it is called every `save_every` steps.

    Raises:
        OperationalError: If memory does not suffice for the largest batch.
        UserError: If the engine cannot update single rows.
    """
    for model in _models(module):
        if context.runtime.activation_checkpointing:
            recompute_activations(model)
        if not fuses_attention(device(), settings.precision):
            model.set_attn_implementation("eager")  # type: ignore[operator]
    rates = ParameterRates.of(settings, tables)
    with explain_out_of_memory(group, settings, context.runtime, device()):
        engine = _make_engine(module, settings, context, rates, row_updates)
    trainer = Trainer(
        module,
        weights,
        data,
        settings,
        engine,
        Checkpoints(context.work / "checkpoints" / part, context.warn),
        seed=seed,
        checkpoint_seconds=context.runtime.checkpoint_seconds,
        background=context.runtime.checkpoints_in_background,
        hooks=Hooks(
            evaluate,
            select,
            _before_update_hook(module, settings, engine, save),
            lambda step, values: context.metrics(steps_before + step, values),
            context.progress if part == WHOLE else partial(_report_part, context, part),
        ),
        width=_width(module) if SCHEDULES[settings.schedule].needs_width else 0,
        callback=callback,
        batch_files=BatchFiles(context.work / "batches"),
        schedule_by_source=isinstance(settings, PretrainSettings) and settings.schedule_per_objective,
    )
    batch = trainer.largest_batch()
    with explain_out_of_memory(group, settings, context.runtime, device(), batch.shape):
        trainer.probe_memory(batch)
    outcome = trainer.run()
    return replace(
        outcome,
        trained_parameters=trained_parameters(module),
        precision=describe_precision(context),
        products=products_by(device(), settings.precision),
    )


def trained_parameters(module: nn.Module) -> int:
    """The number of trained parameters of a module, including all shards of those that are sharded over workers."""
    return sum(int(getattr(p, "ds_numel", p.numel())) for p in module.parameters() if p.requires_grad)


def peak_memory() -> int:
    """The peak memory of this process in bytes: GPU memory if there is a GPU, else main memory."""
    if device().type == "cuda":
        return torch.cuda.max_memory_allocated()
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024  # macOS counts bytes, Linux KiB


def _report_part(context: Context, part: str, done: int, total: int, what: str, now: str = "") -> None:
    context.progress(done, total, what, f"{part}, {now}" if now else part)


def _make_engine(
    module: nn.Module,
    settings: TrainingSettings,
    context: Context,
    rates: ParameterRates,
    row_updates: Sequence[RowUpdates],
) -> Engine:
    runtime = context.runtime
    if runtime.zero_stage is None:
        return PlainEngine(module.to(device()), settings, device(), rates, row_updates)
    if row_updates:
        raise UserError(ROWS_IN_PARTS)
    from subgraft.training.deepspeed_engine import DeepSpeedEngine

    return DeepSpeedEngine(module, settings, device(), runtime.zero_stage, rates, runtime.offload)


def _models(module: nn.Module) -> list[nn.Module]:
    """The model of a loss; if tasks share a body, the model of each task."""
    several: Iterable[nn.Module] | None = getattr(module, "models", None)
    return [module.model] if several is None else list(several)  # type: ignore[list-item]


def _width(module: nn.Module) -> int:
    """The width of the hidden states of a loss's model."""
    model: nn.Module = module.model  # type: ignore[assignment]
    return family_of(model).width(model.config.to_dict())  # type: ignore[union-attr,operator]


def _before_update_hook(
    module: nn.Module, settings: TrainingSettings, engine: Engine, save: Callable[[int], None] | None
) -> Callable[[int], None]:
    """A function that is called before each update: it sets the dropout, and saves the weights if this is due."""
    every = settings.save_every if isinstance(settings, PretrainSettings) else None

    def begin(step: int) -> None:
        if isinstance(settings, ModelTrainingSettings) and settings.dropout_schedule:
            rate = settings.dropout_at(step)
            if rate is not None:
                for model in _models(module):
                    set_hidden_dropout(model, rate)
        if save is not None and every is not None and step and step % every == 0:
            with engine.gathered_parameters():
                if is_writer():
                    save(step)

    return begin


def is_writer() -> bool:
    """Whether this worker writes the step's output: rank 0 does."""
    return rank_and_world()[0] == 0


def write_curve(outcome: Outcome, out: Path, name: str = CURVE) -> dict[str, Json]:
    """Write a training's curve next to its weights; returns its summary for the record."""
    if is_writer():
        (out / name).write_text(json.dumps([asdict(point) for point in outcome.curve], indent=1) + "\n")
    optional: dict[str, Json] = {"precision": outcome.precision, "products": outcome.products}
    details = {name: value for name, value in optional.items() if value is not None}
    seconds = round(outcome.seconds, 1)
    return {"steps": outcome.steps, "best_step": outcome.best_step, "training_seconds": seconds, **details}


def held_out_mean(
    module: nn.Module, data: Data, settings: TrainingSettings, name: str
) -> Callable[[], dict[str, float]]:
    """A function that computes the mean of a module's only loss over held-out examples, under the name `name`."""
    plan = batch_plan(data.lengths, settings, seed=0)

    @torch.no_grad()
    def mean() -> dict[str, float]:
        module_device = next(module.parameters()).device

        def loss_and_count(indices: np.ndarray) -> tuple[float, float]:
            batch = data.batch(indices, 0)
            ((loss, counted),) = batch.counts.items()
            with autocast(module_device, settings.precision):
                return float(module(batch.to(module_device))[loss]), float(counted)

        total, count = sums_over_batches(plan.epoch(0), loss_and_count, module_device, count=2)
        return {name: total / max(count, 1)}

    return mean
