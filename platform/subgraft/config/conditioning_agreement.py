"""What must hold between systems whose language model reads a source, and the rest of an experiment."""

from __future__ import annotations

from subgraft.config.comparison import Comparison
from subgraft.config.conditioning import IN_LAYERS
from subgraft.config.systems import System
from subgraft.config.tasks import TASKS, tasks_with


def require_conditioned_systems(experiment: Comparison) -> None:
    """Raises ValueError where a system has a class to read and the task has none, or is trained in parts."""
    given = [system for system in experiment.systems if system.conditioning is not None]
    of_classes = TASKS[experiment.task].of_classes
    if given and not of_classes:
        tasks = " or ".join(f"`task: {name}`" for name in tasks_with("of_classes"))
        raise ValueError(f"system {given[0].name}: conditioning is on a class, which {tasks} has")
    if of_classes and experiment.evaluation.upstream_sentences is not None:
        raise ValueError(f"evaluation.upstream_sentences is of text without a class: {experiment.task} has none")
    for name, only in (("engine", "transformers"), ("speed_measured", "apart")):
        if of_classes and (found := getattr(experiment.evaluation, name)) != only:
            raise ValueError(f"evaluation.{name} {found} does not write for a class: leave it {only}")
    for name in ("draw", "no_repeat_ngrams"):
        if not of_classes and getattr(experiment.evaluation, name) is not None:
            raise ValueError(f"evaluation.{name} is of text that is written for a class, not of {experiment.task}")
    if given and experiment.runtime.activation_checkpointing:
        raise ValueError(
            f"system {given[0].name}: layers that are computed again would lose their source: leave out "
            "runtime.activation_checkpointing"
        )
    for system in given if experiment.upstream.checkpoint is None else ():
        if system.conditioning in IN_LAYERS and not experiment.model.attends_to_source:
            raise ValueError(
                f"system {system.name}: conditioning {system.conditioning} needs a model.family whose layers have a "
                f"place for attention to a source, which {experiment.model.family} has not: take another, or gpt2"
            )
    for system in experiment.systems if of_classes else ():
        _require_whole(experiment, system)


def _require_whole(experiment: Comparison, system: System) -> None:
    """What is new of a source is trained from the first step, with all that is not frozen."""
    training = system.finetuning(experiment.finetune)
    parts = {
        "attached": system.attached,
        "tables_first": system.tables_first,
        "rows_first": system.rows_first,
        "text": system.text,
        "rare_tokens": training.rare_tokens,
        f"train: {training.train}": training.train != "all",
    }
    if found := [name for name, value in parts.items() if value]:
        raise ValueError(f"system {system.name}: {experiment.task} trains a whole model: leave out {found[0]}")
