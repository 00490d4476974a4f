"""What the training stages share: engine, device, checkpoints, dev scores and the record of a curve."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import asdict
from functools import partial
from pathlib import Path

import numpy as np
import torch
import torch.distributed as dist
from torch import Tensor, nn

from subgraft.config.corpora import Languages
from subgraft.config.training import ROWS_IN_PARTS, ModelTrainingSettings, TrainingSettings
from subgraft.errors import UserError
from subgraft.inference.translate import Translator
from subgraft.metrics.bits import bits_per_character, count_characters
from subgraft.metrics.scores import corpus_scores
from subgraft.models.bundle import Bundle
from subgraft.models.dropout import set_hidden_dropout
from subgraft.objectives.seq2seq import Seq2SeqData, token_loss
from subgraft.objectives.translation import Translation
from subgraft.stages.context import Context, Json
from subgraft.stages.kept_weights import CURVE
from subgraft.text.batches import BatchPlan
from subgraft.training.checkpoint import Checkpoints
from subgraft.training.dry_run import out_of_memory_told
from subgraft.training.engine import Engine, PlainEngine, recompute_activations
from subgraft.training.learning_rates import SCHEDULES
from subgraft.training.loop import Hooks, Trainer
from subgraft.training.parameter_groups import ParameterRates
from subgraft.training.progress import Outcome
from subgraft.training.row_updates import RowUpdates
from subgraft.training.schedule import Data, batch_plan
from subgraft.training.selection import Selection

# Greedy output of more than this many times the bytes of its source is cut while training is watched.
DEV_LENGTH_RATIO = 2.5
# Among dev scores: references that bits per character leave out.
LEFT_OUT = "references_left_out"


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
    select: Selection | None = None,
    part: str = "all",
    steps_before: int = 0,
    tables: Collection[Tensor] = (),
    row_updates: Sequence[RowUpdates] = (),
) -> Outcome:
    """Train `module` in this step's work directory, from its last checkpoint if there is one.

    group: what the settings are called in a configuration.  part: names the checkpoints of one of several trainings of
    a step.  steps_before: what was trained before this, for the record of a curve that goes on.  tables: what
    `embedding_learning_rate` is for.  row_updates: rows that follow the optimizer in part. Raises OperationalError
    where memory does not suffice for the largest batch, and UserError where the engine cannot treat single rows.
    """
    if context.runtime.activation_checkpointing:
        recompute_activations(module.model)  # type: ignore[arg-type]
    if device().type == "cpu" and settings.precision == "bf16":
        # The fused kernel's backward pass is slow there: a step takes half as long again (benchmarks/training_step.py).
        module.model.set_attn_implementation("eager")  # type: ignore[union-attr,operator]
    rates = ParameterRates.of(settings, tables)
    with out_of_memory_told(group, settings, context.runtime, device()):
        engine = _engine(module, settings, context, rates, row_updates)
    trainer = Trainer(
        module,
        weights,
        data,
        settings,
        engine,
        Checkpoints(context.work / "checkpoints" / part, context.warn),
        seed=seed,
        checkpoint_seconds=context.runtime.checkpoint_seconds,
        hooks=Hooks(
            evaluate,
            select,
            _dropout_by_step(module, settings),
            partial(_recorded, context, steps_before),
            context.progress,
        ),
        width=_width(module) if SCHEDULES[settings.schedule].needs_width else 0,
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


def _width(module: nn.Module) -> int:
    """Of the hidden states of a loss's model, which are as wide as its input table."""
    return int(module.model.get_input_embeddings().embedding_dim)  # type: ignore[union-attr,operator]


def _dropout_by_step(module: nn.Module, settings: TrainingSettings) -> Callable[[int], None]:
    """What sets the dropout of a loss's model before each update; nothing where the settings have it stay as it is."""
    if not isinstance(settings, ModelTrainingSettings) or not settings.dropout_schedule:
        return lambda step: None

    def set_rate(step: int) -> None:
        rate = settings.dropout_at(step)
        if rate is not None:
            set_hidden_dropout(module.model, rate)  # type: ignore[arg-type]

    return set_rate


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


class DevScores:
    """Scores of a translation model on the first dev sentences: bits per character, and BLEU of greedy output.

    bits per character: negative log-likelihood of the references, ends of sentences included, over their characters.
    References longer than the model takes are left out of both, and their number is told where there are any; BLEU is
    of all sentences. Raises UserError where none is left.
    """

    def __init__(
        self,
        bundle: Bundle,
        pairs: Sequence[tuple[str, str]],
        languages: Languages,
        settings: TrainingSettings,
    ) -> None:
        self._model = bundle.model
        self._pairs = list(pairs[: settings.dev_sentences])
        self._language = languages.target
        form = bundle.sequence_format(languages)
        limit = bundle.max_positions
        examples = Translation(self._pairs, bundle.encoder, bundle.decoder, form, limit)
        self._data = Seq2SeqData(examples, *bundle.padding)
        self._whole = np.flatnonzero(examples.whole_targets)
        if self._pairs and not len(self._whole):
            raise UserError(
                f"no dev reference fits into the {limit} tokens that the model takes",
                hint="Give a model of more positions (model.max_positions), or dev references of fewer tokens.",
            )
        self._plan = BatchPlan(examples.lengths[self._whole], max(settings.batch_size, limit), seed=0)
        self._precision = settings.precision
        self._translate = Translator(
            bundle.model,
            bundle.encoder,
            bundle.decoder,
            form,
            beam=1,
            max_length_ratio=DEV_LENGTH_RATIO,
            max_positions=limit,
        )

    def __call__(self) -> dict[str, float]:
        references = [target for _, target in self._pairs]
        characters = count_characters(references[place] for place in self._whole)
        bits = bits_per_character(self._negative_log_likelihood(), characters)
        left_out = len(references) - len(self._whole)
        hypotheses = self._translate([source for source, _ in self._pairs])
        bleu = corpus_scores(hypotheses, references, self._language, ["BLEU"])["BLEU"]
        told = {LEFT_OUT: float(left_out)} if left_out else {}
        return {"bits_per_character": bits, "bleu": bleu.value, **told}

    @torch.no_grad()
    def _negative_log_likelihood(self) -> float:
        where = next(self._model.parameters()).device
        total = 0.0
        for indices in self._plan.epoch(0):
            batch = self._data.batch(self._whole[indices], 0).to(where)
            with torch.autocast(where.type, dtype=torch.bfloat16, enabled=self._precision == "bf16"):
                total += float(token_loss(self._model, batch))
        return total
