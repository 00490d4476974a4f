"""Checks of systems that are trained on several tasks at once."""

from __future__ import annotations

from subgraft.config.comparison import Comparison
from subgraft.config.multitask import OWN, FurtherTask
from subgraft.config.systems import System
from subgraft.config.tasks import TASKS, reads_labels


def require_tasks_at_once(experiment: Comparison) -> None:
    """Raise ValueError if a system with `multitask` lacks tasks, or has settings that its training would ignore."""
    for name, task in ({} if experiment.multitask is None else experiment.multitask.tasks).items():
        _require_task(experiment, f"multitask.tasks.{name}", name, task)
    systems = [system for system in experiment.systems if system.multitask is not None]
    if not systems:
        return
    where, training = f"system {systems[0].name}: multitask: {systems[0].multitask}", experiment.multitask_training
    if experiment.multitask is None or training is None:
        raise ValueError(f"{where} needs other tasks: give multitask.tasks, each with its task and corpus")
    if not reads_labels(experiment.task):
        raise ValueError(f"{where} is for tasks with labels, which {experiment.task} is not")
    if training.select not in ("score", "last"):
        raise ValueError(
            f"multitask_training.select {training.select}: labels have no such score: write score, or last"
        )
    if training.batch_size_schedule:
        raise ValueError(
            "multitask_training.batch_size_schedule: several tasks take turns, batch by batch: leave it out"
        )
    for system in systems:
        _require_finetuning(experiment, system)


def _require_task(experiment: Comparison, where: str, name: str, task: FurtherTask) -> None:
    if name == OWN:
        raise ValueError(f"{where}: {OWN} is the name of the experiment's own task: choose another")
    if not reads_labels(task.task):
        labelled = ", ".join(filter(reads_labels, TASKS))
        raise ValueError(f"{where}.task {task.task} has no labels: the tasks with labels are {labelled}")
    if task.corpus not in experiment.corpora:
        raise ValueError(f"{where}.corpus '{task.corpus}' is not among corpora: {', '.join(experiment.corpora)}")
    languages = experiment.languages
    if languages.source != languages.target and not experiment.learnt_with(task).needs_pairs:
        raise ValueError(f"{where}: {task.task} reads text in one language: source and target must be the same")


def _require_finetuning(experiment: Comparison, system: System) -> None:
    """A system that is not finetuned has no settings of a finetuning."""
    if system.multitask != "alone":
        return
    searched = experiment.search
    varied = searched.space.varied if searched and system.name in (searched.systems or (searched.system,)) else {}
    for name in ("learning_rate", "embedding_learning_rate", "train", "rare_tokens", "embeddings_only_fraction"):
        if getattr(system, name) or name in varied:
            raise ValueError(
                f"system {system.name}: {name} is of finetuning, which `multitask: alone` replaces: leave it out, or "
                "write `multitask: finetuned`"
            )
