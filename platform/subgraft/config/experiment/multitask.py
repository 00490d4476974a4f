"""Settings of the tasks that share a training with an experiment's own, and of that training."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from subgraft.config.settings_base import Settings
from subgraft.config.training import FinetuneSettings, ModelTrainingSettings
from subgraft.data.tasks.registry import TaskName
from subgraft.training.objectives.labelled import LabelSettings

# Where a system's multi-task training ends: its model is evaluated, or finetuned on the experiment's task first.
MultitaskUse = Literal["alone", "finetuned"]
# The name of the experiment's own task among those that are learnt together.
OWN = "own"


class FurtherTask(Settings):
    """A task that is learnt together with the experiment's own.

    task: a task with labels.
    corpus: the corpus of its examples, which needs the splits train and dev.
    labels: how it is learnt and judged.
    """

    task: TaskName
    corpus: str
    labels: LabelSettings = LabelSettings()


class MultitaskSettings(Settings):
    """Several tasks at once (MT-DNN, Liu et al., ACL 2019): one body, and a head for each task.

    tasks: the tasks besides the experiment's own, by names of your choice.
    """

    tasks: Annotated[
        dict[Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9_-]*$")], FurtherTask], Field(min_length=1)
    ]


class MultitaskTrainingSettings(ModelTrainingSettings):
    """The training of several tasks at once: each batch has examples of one task, and an epoch is one pass over those
    of all tasks. Dev scores of the experiment's own task select the weights.
    """

    def finetuning(self, of_task: FinetuneSettings) -> FinetuneSettings:
        """The same training as finetuning settings.

        of_task: the finetuning on the experiment's own task, whose choice of training examples applies here too.
        """
        subset = {name: getattr(of_task, name) for name in ("max_train_examples", "resample_subset")}
        return FinetuneSettings(**self.model_dump(), **subset)
