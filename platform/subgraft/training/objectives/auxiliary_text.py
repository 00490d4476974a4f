"""Additional text of a finetuning, next to the task's own or in its place: synthetic pairs or monolingual text."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from itertools import chain
from typing import Any

import numpy as np
from torch import nn

from subgraft.config.corpora import Languages
from subgraft.config.objectives import DenoisingSettings, TaskObjectiveSettings
from subgraft.config.settings_base import SideName
from subgraft.config.training import FinetuneSettings
from subgraft.data.text.encoded import encode
from subgraft.data.text.noise import infill
from subgraft.modeling.bundle import Bundle
from subgraft.subwords.vocabulary.words import WordBoundaries
from subgraft.training.objectives.finetuning import LinesToTrain, PairsToTrain, TaskText, TrainedText
from subgraft.training.objectives.objective import Request
from subgraft.training.objectives.seq2seq import Example, Seq2SeqData

# Denoising of a domain's monolingual lines, as an auxiliary objective of a finetuning on pairs.

_FIELD = "target"


class _Noised:
    """Examples: a line as the decoder's vocabulary cuts it, from the same line as the encoder's does, infilled.

    Pretraining joins lines into blocks. Here each line is an example of its own, so that examples are the same for
    every vocabulary; noise is a function of (seed, epoch, index).
    """

    def __init__(self, settings: DenoisingSettings, request: Request, training: FinetuneSettings) -> None:
        bundle, language = request.bundle, request.languages.target
        self.lines = request.corpus.text("train", _FIELD)
        self._form = bundle.sequence_format(Languages(source=language, target=language))
        room = training.max_length - self._form.around
        read, written = encode(self.lines, bundle.encoder), encode(self.lines, bundle.decoder)
        self.cut = int((read.sequences.longer(written.sequences) > room).sum())
        self._read, self._written = read.sequences.cut(room), written.sequences.cut(room)
        self._boundaries, self._mask = WordBoundaries.of(bundle.encoder), bundle.encoder.special["mask"]
        self._settings, self._seed = settings, request.seed
        in_tokens = self._read.longer(self._written) + 1
        in_characters: np.ndarray = written.characters.astype(np.int64) + 1
        self._lengths: np.ndarray = in_characters if training.batch_unit == "characters" else in_tokens

    def __len__(self) -> int:
        return len(self._lengths)

    @property
    def lengths(self) -> np.ndarray:
        return self._lengths

    def example(self, index: int, epoch: int) -> Example:
        words = self._boundaries.words(self._read[index])
        noised = infill(words, self._mask, self._settings, np.random.default_rng([self._seed, epoch, index]))
        return Example.of(noised, self._written[index], self._form)


class DenoisedLines(Seq2SeqData):
    """Target text without sources, trained by denoising."""

    def __init__(self, settings: DenoisingSettings, request: Request, training: FinetuneSettings) -> None:
        examples = _Noised(settings, request, training)
        super().__init__(examples, *request.bundle.padding)
        self.cut = examples.cut
        self.texts: Mapping[SideName, Iterable[str]] = {"encoder": examples.lines, "decoder": examples.lines}


class AuxiliaryText:
    """A task's text plus additional text, which makes up `second_share` of each batch; scored on the task's dev split.

    Examples of the task are numbered first; a batch is of one of the two. cut: truncated examples of the task.
    """

    def __init__(self, task: TaskText, text: TrainedText, share: float) -> None:
        self.first, self.second, self.second_share = task, text, share
        self.cut = task.cut
        self._before = len(task.lengths)

    @property
    def texts(self) -> Mapping[SideName, Iterable[str]]:
        second = self.second.texts
        return {side: chain(lines, second.get(side, ())) for side, lines in self.first.texts.items()}

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
TASK_TEXTS: Mapping[str, Callable[[Any, Request, FinetuneSettings], TrainedText]] = {
    "translation": PairsToTrain.of,
    "denoising": DenoisedLines,
    "causal": LinesToTrain,
}


def with_text(
    task: TaskText, objective: TaskObjectiveSettings, request: Request, training: FinetuneSettings
) -> AuxiliaryText | TextAlone:
    """A task's text and that of the request's corpus, which makes up the configured fraction of each batch."""
    text = TASK_TEXTS[objective.kind](objective, request, training)
    return (
        TextAlone(task, text)
        if training.monolingual_fraction == 1.0
        else AuxiliaryText(task, text, training.monolingual_fraction)
    )
