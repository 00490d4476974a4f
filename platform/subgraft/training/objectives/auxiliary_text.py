"""Text that a finetuning reads beside a task's own, or in its place: pairs that were made of it, or the text itself."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from itertools import chain
from typing import Any

import numpy as np
from torch import nn

from subgraft.config.settings_base import SideName
from subgraft.config.objectives import TaskObjectiveSettings
from subgraft.config.training import FinetuneSettings
from subgraft.modeling.bundle import Bundle
from subgraft.training.objectives.denoised_lines import DenoisedLines
from subgraft.training.objectives.finetuning import LinesToTrain, PairsToTrain, TaskText, TrainedText
from subgraft.training.objectives.objective import Request


class TextBeside:
    """A task's text with other text beside it, which has `second_share` of each batch; judged by the task's dev split.

    Examples are numbered one after the other, the task's first; a batch is of one of the two.  cut: of the task's.
    """

    def __init__(self, task: TaskText, text: TrainedText, share: float) -> None:
        self.first, self.second, self.second_share = task, text, share
        self.cut = task.cut
        self._before = len(task.lengths)

    @property
    def texts(self) -> Mapping[SideName, Iterable[str]]:
        beside = self.second.texts
        return {side: chain(lines, beside.get(side, ())) for side, lines in self.first.texts.items()}

    @property
    def lengths(self) -> np.ndarray:
        return np.concatenate([self.first.lengths, self.second.lengths])

    def batch(self, indices: np.ndarray, epoch: int) -> Any:
        if indices[0] < self._before:
            return self.first.batch(indices, epoch)
        return self.second.batch(indices - self._before, epoch)

    def loss(self, bundle: Bundle) -> nn.Module:
        return self.first.loss(bundle)

    def dev_scores(self, bundle: Bundle) -> Callable[[], dict[str, float]]:
        return self.first.dev_scores(bundle)


class TextAlone:
    """Other text in place of a task's own, judged by the task's dev split."""

    def __init__(self, task: TaskText, text: TrainedText) -> None:
        self._task, self._text = task, text
        self.cut = text.cut

    @property
    def texts(self) -> Mapping[SideName, Iterable[str]]:
        return self._text.texts

    @property
    def lengths(self) -> np.ndarray:
        return self._text.lengths

    def batch(self, indices: np.ndarray, epoch: int) -> Any:
        return self._text.batch(indices, epoch)

    def loss(self, bundle: Bundle) -> nn.Module:
        return self._task.loss(bundle)

    def dev_scores(self, bundle: Bundle) -> Callable[[], dict[str, float]]:
        return self._task.dev_scores(bundle)


# By the objective that the text is learnt with; its examples must be such as the task's loss is of.
BESIDE: Mapping[str, Callable[[Any, Request, FinetuneSettings], TrainedText]] = {
    "translation": PairsToTrain.of,
    "denoising": DenoisedLines,
    "causal": LinesToTrain,
}


def with_text(
    task: TaskText, objective: TaskObjectiveSettings, request: Request, training: FinetuneSettings
) -> TextBeside | TextAlone:
    """A task's text with that of the request's corpus beside it, in the share of each batch that the training says."""
    text = BESIDE[objective.kind](objective, request, training)
    return TextAlone(task, text) if training.text_share == 1.0 else TextBeside(task, text, training.text_share)
