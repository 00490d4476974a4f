"""Checks of tasks that predict labels: their heads and metrics, predictions without finetuning, several tasks at once.

Each raises ValueError with the setting to change.
"""

from __future__ import annotations

from subgraft.config.experiment.comparison import Comparison
from subgraft.config.experiment.multitask import OWN, FurtherTask
from subgraft.config.experiment.systems import System
from subgraft.data.tasks.registry import LABELLED_TASKS
from subgraft.embeddings.methods.registry import method_spec
from subgraft.training.objectives.labelled import LabelSettings
from subgraft.training.objectives.registry import CONTINUING_KINDS


def require_settings_of_labels(experiment: Comparison) -> None:
    """Tasks that predict labels are scored by their own metrics, and train a new head."""
    task, select = experiment.task, experiment.finetune.select
    trained = {system.name: system.finetuning(experiment.finetune).train for system in experiment.systems}
    if not experiment.finetuned_on.understands:
        if select == "score":
            raise ValueError(f"finetune.select score is for tasks with labels, which {task} is not: leave it out")
        if named := [name for name, train in trained.items() if train == "head"]:
            raise ValueError(f"system {named[0]}: train: head is for tasks with labels, which {task} is not")
        if experiment.labels != LabelSettings():
            raise ValueError(f"labels: these settings are for tasks with labels, which {task} is not: leave them out")
        if headed := [system.name for system in experiment.systems if system.head]:
            raise ValueError(f"system {headed[0]}: head is for tasks with labels, which {task} is not: leave it out")
        return
    _require_tasks_of_heads(experiment)
    _require_zero_shot(experiment)
    if select not in ("score", "last"):
        raise ValueError(f"finetune.select {select}: {task} has labels, and no text to score: write score, or last")
    if experiment.finetune.label_smoothing and not LABELLED_TASKS[task].classes:
        raise ValueError(f"finetune.label_smoothing {experiment.finetune.label_smoothing}: {task} has no classes")
    for name in ("calibration", "by_token_count", "metrics", "upstream_sentences"):
        if getattr(experiment.evaluation, name):
            raise ValueError(f"evaluation.{name} is for generated text: {task} has metrics of its own, so leave it out")
    if experiment.search is not None and not {*experiment.search.objectives} <= {"dev_score", "sentences_per_second"}:
        raise ValueError(f"search.objectives: a search of {task} measures dev_score and sentences_per_second")
    for system in experiment.systems:
        settings = {
            f"train: {system.train or experiment.finetune.train}": system.finetuning(experiment.finetune).train
            == "new-rows",
            "tie_to_sources": system.tie_to_sources,
            "text": system.text,
            "embedding_warmup": system.embedding_warmup,
            "conditioning": system.conditioning,
        }
        if unsupported := [name for name, is_set in settings.items() if is_set]:
            raise ValueError(f"system {system.name}: {unsupported[0]} is not for {task}, which trains a new head too")
        if method_spec(system.initialiser).learning:
            raise ValueError(f"system {system.name} learns its rows on pairs of texts, which {task} does not have")
    if experiment.languages.source != experiment.languages.target and not experiment.finetuned_on.needs_pairs:
        raise ValueError(f"{task} reads text in one language: source and target must be the same")


def _require_tasks_of_heads(experiment: Comparison) -> None:
    """Raise ValueError if a head does not support its task."""
    heads = {"labels.head": (experiment.task, experiment.labels.head)}
    heads |= {f"system {system.name}: head": (experiment.task, system.head) for system in experiment.systems}
    other_tasks = {} if experiment.multitask is None else experiment.multitask.tasks
    heads |= {
        f"multitask.tasks.{name}.labels.head": (task_settings.task, task_settings.labels.head)
        for name, task_settings in other_tasks.items()
    }
    for where, (task, head) in heads.items():
        suitable = [name for name, each in LABELLED_TASKS.items() if head is not None and head.kind in each.heads]
        if head is not None and task not in suitable:
            raise ValueError(f"{where} {head.kind} is for {', '.join(suitable)}, not for {task}: leave it out")


def _require_zero_shot(experiment: Comparison) -> None:
    """Zero-shot predictions need a task with classes and a model that continues texts; nothing is trained."""
    settings = experiment.labels.zero_shot
    if settings is None:
        return
    task = LABELLED_TASKS[experiment.task]
    if not task.zero_shot:
        raise ValueError(f"labels.zero_shot predicts classes of texts or pairs, and {experiment.task} has others")
    if task.pairs != ("{text_pair}" in settings.template):
        needs = "needs {text_pair}" if task.pairs else "has {text_pair}, and the task has one text"
        raise ValueError(f"labels.zero_shot.template {needs}")
    if experiment.labels.head is not None or any(system.head for system in experiment.systems):
        raise ValueError("labels.zero_shot: no head is trained; leave out head")
    named = ("train", "embedding_warmup", "multitask", "text")
    if trained := [system.name for system in experiment.systems if any(getattr(system, name) for name in named)]:
        what = ", ".join(named)
        raise ValueError(f"system {trained[0]}: labels.zero_shot finetunes nothing; leave out {what}")
    if experiment.upstream.checkpoint is None and CONTINUING_KINDS.isdisjoint(experiment.model.objectives):
        raise ValueError(
            f"labels.zero_shot needs a model that continues texts, as of model.family branched or gpt2, not "
            f"{experiment.model.family}"
        )


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
    if experiment.task not in LABELLED_TASKS:
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
    if task.task not in LABELLED_TASKS:
        labelled = ", ".join(LABELLED_TASKS)
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
    search = experiment.search
    varied = search.space.varied if search and system.name in (search.systems or (search.system,)) else {}
    rates = ("learning_rate", "embedding_learning_rate", "new_embedding_learning_rate")
    for name in (*rates, "train", "rare_tokens", "embeddings_only_fraction"):
        if getattr(system, name) or name in varied:
            raise ValueError(
                f"system {system.name}: {name} applies to finetuning, which `multitask: alone` replaces: leave it out, "
                "or write `multitask: finetuned`"
            )
