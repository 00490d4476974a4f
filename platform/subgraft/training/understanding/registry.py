"""The classes of all tasks with labels, which `data.tasks` names, and the task of a finetuned model.

config.json describes the outputs of a head but not its inputs: one text or two, with or without marks around entities.
Finetuning adds this as an entry, which transformers preserves and ignores.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from transformers import PreTrainedModel

from subgraft.base.entries import imported
from subgraft.base.errors import UserError
from subgraft.data.tasks.registry import LABELLED_TASKS
from subgraft.modeling.families import Config
from subgraft.modeling.families.heads import LONGEST, TASK_ENTRY
from subgraft.modeling.heads import head_of
from subgraft.training.objectives.labelled import LabelSettings
from subgraft.training.understanding.input_forms import InputForm
from subgraft.training.understanding.task import LabelledTask

TASK_CLASSES: Mapping[str, type[LabelledTask]] = {
    name: imported(f"{__package__}.{spec.task}") for name, spec in LABELLED_TASKS.items()
}


class ModelTask(NamedTuple):
    """The task that a model was finetuned for.

    recorded: whether config.json names the task; otherwise it is derived from the head, and the form of the inputs is
        uncertain.
    """

    name: str
    task: LabelledTask
    recorded: bool

    @property
    def form(self) -> InputForm:
        """The form of its inputs."""
        own, other = self.task.form, self.task.unrecorded_form
        return own if self.recorded or other is None else other


def record_task(model: PreTrainedModel, name: str, task: LabelledTask, longest: int | None = None) -> None:
    """Record the task in the model's configuration. longest: the limit of inputs in tokens, if not the model's."""
    limit = {} if longest is None else {LONGEST: longest}
    label_settings = task.judged.model_dump(mode="json", exclude={"head"}, exclude_none=True)
    setattr(model.config, TASK_ENTRY, {"task": name, **task.settings, **label_settings, **limit})


def recorded_task(name: str, labels: Sequence[str], entry: Mapping[str, Any], where: str) -> LabelledTask:
    """The task of a finetuned model, from the labels of its head and the entry that `record_task` wrote."""
    metrics, negative = entry.get("metrics"), entry.get("negative")
    label_settings = LabelSettings(
        metrics=tuple(map(str, metrics)) if isinstance(metrics, list) and metrics else None,
        negative=None if negative is None else str(negative),
    )
    return TASK_CLASSES[name].of_model(labels, entry).judged_by(label_settings, where)


def task_of_model(model: PreTrainedModel | Config, where: str) -> ModelTask:
    """The task of a finetuned model, or of its config.json. Raises UserError for a model that predicts no labels."""
    head = head_of(model)
    if head is None:
        hint = "`subgraft generate` writes texts with models; labelled examples finetune a head for predictions."
        raise UserError("this model has no head that predicts labels", where=where, hint=hint)
    entry: Any = model.get(TASK_ENTRY) if isinstance(model, Mapping) else getattr(model.config, TASK_ENTRY, None)
    settings: Mapping[str, Any] = entry if isinstance(entry, Mapping) else {}
    recorded_name = str(settings.get("task"))
    recorded = recorded_name in TASK_CLASSES and TASK_CLASSES[recorded_name].head == head.kind
    name = recorded_name
    if not recorded:  # it was finetuned elsewhere: the first task with such a head
        problem = None
        if head.kind == "sequence":
            of_classes = "regression" if len(head.labels) == 1 else "single_label_classification"
            problem = head.problem if head.problem in ("multi_label_classification", "regression") else of_classes
        wanted = head.kind, problem
        name = next(each for each, task in TASK_CLASSES.items() if (task.head, task.problem_type) == wanted)
    return ModelTask(name, recorded_task(name, head.labels, settings if recorded else {}, where), recorded)
