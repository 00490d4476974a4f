"""Checks of systems whose language model reads a source."""

from __future__ import annotations

from subgraft.config.experiment.comparison import Comparison
from subgraft.config.experiment.systems import System
from subgraft.config.settings_base import OPTIONAL_ENGINES
from subgraft.data.tasks.registry import TASKS
from subgraft.modeling.conditioning.variants.registry import VARIANTS
from subgraft.training.objectives.registry import task_objective


def require_conditioned_systems(experiment: Comparison) -> None:
    """Raise ValueError if a system with `conditioning` does not fit the task or the other settings."""
    conditioned = [system for system in experiment.systems if system.conditioning is not None]
    source = task_objective(experiment.task).source
    if conditioned and source is None:
        tasks = " or ".join(f"`task: {name}`" for name in TASKS if task_objective(name).source)
        raise ValueError(f"system {conditioned[0].name}: conditioning needs a source, which {tasks} has")
    if experiment.conditioning.pretrained_encoder is not None and source != "text":
        raise ValueError(f"conditioning.pretrained_encoder reads text, and {experiment.task} has none: leave it out")
    if experiment.conditioning.shared_vocabulary and source != "text":
        raise ValueError(f"conditioning.shared_vocabulary is for a source text, and {experiment.task} has none")
    _require_measurable(experiment)
    if experiment.finetune.shuffled_sources:
        raise ValueError("finetune.shuffled_sources: write `shuffled_sources: true` in the systems that are controls")
    if shuffled := [each.name for each in experiment.systems if each.shuffled_sources and each.conditioning is None]:
        raise ValueError(f"system {shuffled[0]}: shuffled_sources needs `conditioning`")
    _require_tokens_to_copy(experiment)
    if conditioned and experiment.runtime.activation_checkpointing:
        raise ValueError(
            f"system {conditioned[0].name}: recomputed layers would lose their source: leave out "
            "runtime.activation_checkpointing"
        )
    for system in conditioned if experiment.upstream.checkpoint is None else ():
        if VARIANTS[str(system.conditioning)].in_layers and not experiment.model.attends_to_source:
            raise ValueError(
                f"system {system.name}: conditioning {system.conditioning} needs layers that can attend to a source, "
                f"which model.family {experiment.model.family} lacks: use gpt2, or another conditioning"
            )
    for system in experiment.systems if source else ():
        _require_whole(experiment, system)


def _require_measurable(experiment: Comparison) -> None:
    """Text written for a source and other text have different settings of evaluation."""
    source, evaluation = task_objective(experiment.task).source, experiment.evaluation
    if source is None:
        for name in ("draw", "no_repeat_ngrams"):
            if getattr(evaluation, name) is not None:
                raise ValueError(f"evaluation.{name} is for text written for a source, not for {experiment.task}")
        return
    if evaluation.upstream_sentences is not None:
        raise ValueError(f"evaluation.upstream_sentences is of text without a source: {experiment.task} has none")
    if evaluation.engine in OPTIONAL_ENGINES:
        raise ValueError(f"evaluation.engine {evaluation.engine} does not write for a source: leave it out")
    if (timing := evaluation.speed_measured) != "apart":
        raise ValueError(f"evaluation.speed_measured {timing} is not for text written for a source: leave it out")


def _require_whole(experiment: Comparison, system: System) -> None:
    """All weights are trained from the first step, those that read a source together with all others."""
    training = system.finetuning(experiment.finetune)
    parts = {
        "tie_to_sources": system.tie_to_sources,
        "embeddings_only_fraction": system.embeddings_only_fraction,
        "embedding_warmup": system.embedding_warmup,
        "text": system.text,
        "rare_tokens": training.rare_tokens,
        "new_embedding_learning_rate": training.new_embedding_learning_rate,
        f"train: {training.train}": training.train != "all",
    }
    if unsupported := [name for name, value in parts.items() if value]:
        raise ValueError(f"system {system.name}: {experiment.task} trains a whole model: leave out {unsupported[0]}")


def _require_tokens_to_copy(experiment: Comparison) -> None:
    """Copied tokens must be in the decoder's vocabulary, and come from a text with encoder states to attend to."""
    for system in experiment.systems:
        if system.copying is None:
            continue
        where = f"system {system.name}: copying {system.copying}"
        if system.conditioning is None or task_objective(experiment.task).source != "text":
            raise ValueError(f"{where} copies tokens of the text that `conditioning` reads: this system reads none")
        if VARIANTS[system.conditioning].in_input:
            raise ValueError(f"{where} attends to the states of an encoder, and {system.conditioning} has no encoder")
        if not experiment.conditioning.shared_vocabulary:
            raise ValueError(
                f"{where} needs a source in the decoder's vocabulary, not in conditioning.vocabulary: write "
                "conditioning.shared_vocabulary: true"
            )
        if system.finetuning(experiment.finetune).label_smoothing:
            raise ValueError(f"{where} is trained without label smoothing: write finetune.label_smoothing: 0")
