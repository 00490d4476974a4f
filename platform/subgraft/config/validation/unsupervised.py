"""Checks of systems that learn to translate without pairs. Each raises ValueError with the setting to change."""

from __future__ import annotations

from subgraft.config.comparison import Comparison
from subgraft.config.tasks import TASKS, tasks_with


def require_unsupervised(experiment: Comparison) -> None:
    """Such systems need text of both languages, and a model that reads and writes both."""
    systems = [system for system in experiment.systems if system.unsupervised]
    if not systems:
        return
    where, text, upstream = f"system {systems[0].name}: unsupervised", experiment.downstream.text, experiment.upstream
    if not TASKS[experiment.task].two_languages:
        raise ValueError(f"{where} is for `task: {' or '.join(tasks_with('two_languages'))}`, not {experiment.task}")
    if text is None or not (text.source and text.target):
        raise ValueError(f"{where} learns from text of both languages: give downstream.text.source and .target")
    if upstream.checkpoint is None and not experiment.model.needs_language_codes:
        raise ValueError(
            f"{where} needs a model that writes both languages, by a code for each: model.family mbart, not "
            f"{experiment.model.family}"
        )
    for system in systems:
        mode = experiment.vocabulary_mode(system)
        if mode in ("replace", "trim") and not experiment.downstream.shared:
            raise ValueError(
                f"system {system.name}: unsupervised reads and writes both languages on each side: it needs "
                "downstream.shared: true, `vocabulary: upstream` or `vocabulary_mode: extend`"
            )
        if system.made_with_its_vocabulary:
            raise ValueError(
                f"system {system.name}: unsupervised needs a model that has learnt of both languages before, which "
                f"`pretraining: {system.pretraining}` is not"
            )
        experiment.unsupervised.training(system.finetuning(experiment.finetune))
