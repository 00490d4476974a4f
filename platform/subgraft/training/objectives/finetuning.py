"""The text of a finetuning's task: its examples, its loss, and its dev scores."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from itertools import islice
from typing import Any, Protocol

import numpy as np
from torch import nn

from subgraft.base.errors import UserError
from subgraft.config.objectives import (
    AnyConditionedSettings,
    CausalSettings,
    ConversationSettings,
    TaskObjectiveSettings,
)
from subgraft.config.settings_base import SideName
from subgraft.config.training import FinetuneSettings
from subgraft.data.text.batches import evenly_spaced_places
from subgraft.modeling.bundle import Bundle
from subgraft.modeling.conditioning.sources import Sourced
from subgraft.training.objectives.causal import CausalScores, Lines, begin_with, separator_of
from subgraft.training.objectives.conditioned import SourcedLines, SourcedLoss, SourcedScores, source_read
from subgraft.training.objectives.conversations import Conversations, ConversationScores, template_of
from subgraft.training.objectives.dev_scores import DevScores
from subgraft.training.objectives.objective import Request
from subgraft.training.objectives.parallel_text import Translation
from subgraft.training.objectives.seq2seq import Seq2SeqData, Seq2SeqLoss
from subgraft.training.objectives.single_stack import StackBatch, StackLoss


class TrainedText(Protocol):
    """Examples of text to train on.

    cut: number of truncated examples.  texts: the lines that each side of the model reads or writes.
    """

    @property
    def cut(self) -> int: ...

    @property
    def texts(self) -> Mapping[SideName, Iterable[str]]: ...

    @property
    def lengths(self) -> np.ndarray: ...

    def batch(self, indices: np.ndarray, epoch: int) -> Any: ...


class TaskText(TrainedText, Protocol):
    """The data of a finetuning. Both phases of a finetuning in two phases share one, so bundles are arguments."""

    def loss(self, bundle: Bundle) -> nn.Module: ...

    def dev_scores(self, bundle: Bundle) -> Callable[[], dict[str, float]]: ...


def selected_examples(whole: int, training: FinetuneSettings, seed: int) -> np.ndarray | None:
    """The indices [training.max_train_examples] of the training examples among `whole`, ascending; None for all."""
    count = training.max_train_examples
    if count is None or count >= whole:
        return None
    if training.resample_subset:
        return np.sort(np.random.default_rng(seed).choice(whole, count, replace=False))
    return evenly_spaced_places(whole, count)


class PairsToTrain(Seq2SeqData):
    """Pairs without a dev split: those of a task, or synthetic ones."""

    def __init__(self, request: Request, training: FinetuneSettings, *, counted: bool = False) -> None:
        """counted: whether the limit `training.max_train_examples` applies to these pairs."""
        bundle, pairs = request.bundle, request.corpus.text_pairs("train")
        places = selected_examples(len(pairs), training, request.seed) if counted else None
        if places is not None:
            pairs = pairs.take(places)
        form, limit = bundle.sequence_format(request.languages), training.max_length
        examples = Translation(pairs, bundle.encoder, bundle.decoder, form, limit, training.batch_unit)
        super().__init__(examples, *bundle.padding)
        self.cut = examples.cut
        self.texts: Mapping[SideName, Iterable[str]] = {"encoder": pairs.source, "decoder": pairs.target}

    @classmethod
    def of(cls, settings: TaskObjectiveSettings, request: Request, training: FinetuneSettings) -> PairsToTrain:
        del settings
        return cls(request, training)


class PairsOfTask(PairsToTrain):
    """The pairs of a task."""

    def __init__(self, request: Request, training: FinetuneSettings) -> None:
        super().__init__(request, training, counted=True)
        self._request, self._training = request, training
        self._dev = list(request.corpus.pairs("dev"))

    @classmethod
    def of(cls, settings: TaskObjectiveSettings, request: Request, training: FinetuneSettings) -> PairsOfTask:
        del settings
        return cls(request, training)

    def loss(self, bundle: Bundle) -> nn.Module:
        return Seq2SeqLoss(bundle.model, self._training.label_smoothing)

    def dev_scores(self, bundle: Bundle) -> DevScores:
        return DevScores(bundle, self._dev, self._request.languages, self._training)


class LinesToTrain:
    """Single lines of one text, without a dev split."""

    def __init__(
        self, settings: CausalSettings, request: Request, training: FinetuneSettings, *, counted: bool = False
    ) -> None:
        """counted: whether the limit `training.max_train_examples` applies to these lines."""
        corpus, tokenizer = request.corpus, request.bundle.decoder
        text = corpus.text("train", corpus.text_of("decoder"))
        places = selected_examples(len(text), training, request.seed) if counted else None
        if places is not None:
            text = text.take(places)
        self._separator, self._training = separator_of(tokenizer, settings), training
        self._lines = Lines(text, tokenizer, self._separator, training.max_length, training.batch_unit)
        self.cut = int((~self._lines.whole).sum())
        self.texts: Mapping[SideName, Iterable[str]] = {"decoder": text}

    @property
    def lengths(self) -> np.ndarray:
        return self._lines.lengths

    def batch(self, indices: np.ndarray, epoch: int) -> StackBatch:
        return self._lines.batch(indices, epoch)


class LinesOfTask(LinesToTrain):
    """The lines of a task."""

    def __init__(self, settings: CausalSettings, request: Request, training: FinetuneSettings) -> None:
        super().__init__(settings, request, training, counted=True)
        dev = request.corpus.text("dev", request.corpus.text_of("decoder"))
        self._dev = list(dev[: training.dev_sentences])

    def loss(self, bundle: Bundle) -> nn.Module:
        begin_with(bundle.model, self._separator)
        return StackLoss(bundle.model, self._training.label_smoothing)

    def dev_scores(self, bundle: Bundle) -> CausalScores:
        return CausalScores(bundle, self._dev, self._separator, self._training)


class SourcedOfTask(SourcedLines):
    """The lines of a task with their sources."""

    def __init__(self, settings: AnyConditionedSettings, request: Request, training: FinetuneSettings) -> None:
        corpus, bundle, source = request.corpus, request.bundle, settings.source
        assert source is not None
        sourced = Sourced.of(corpus, "train", source)
        places = selected_examples(len(sourced.texts), training, request.seed)
        sourced = sourced if places is None else sourced.take(places)
        sourced = sourced.shuffled(request.seed) if training.shuffled_sources else sourced
        self._separator, self._training = separator_of(bundle.decoder, settings), training
        self._read = source_read(bundle)
        sources = self._read.encode(sourced.sources)
        limit = min(training.max_length, bundle.max_positions)  # less than of a text alone, where a source is prepended
        costs = sourced.costs() if training.batch_unit == "characters" else None
        super().__init__(sourced.texts, sources, bundle, self._separator, limit, training.batch_unit, costs)
        self.cut = int((~self.whole).sum())
        self.texts: Mapping[SideName, Iterable[str]] = {"decoder": sourced.texts}
        self._dev = Sourced.of(corpus, "dev", source).first(training.dev_sentences)

    def loss(self, bundle: Bundle) -> nn.Module:
        begin_with(bundle.model, self._separator)
        return SourcedLoss(bundle.model, self._training.label_smoothing)

    def dev_scores(self, bundle: Bundle) -> SourcedScores:
        sources = self._read.encode(self._dev.sources)
        return SourcedScores(bundle, list(self._dev.texts), sources, self._separator, self._training)


class ConversationsOfTask:
    """The conversations of a task.

    left_out: how many have no answer to learn, by reason.
    """

    def __init__(self, settings: ConversationSettings, request: Request, training: FinetuneSettings) -> None:
        corpus, self._learnt, self._training = request.corpus, settings.chat.turns, training
        text, conversations = corpus.text("train", corpus.text_of("decoder")), list(corpus.conversations("train"))
        chosen = selected_examples(len(text), training, request.seed)
        places = np.arange(len(text)) if chosen is None else chosen
        costs = np.array([len(line) + 1 for line in text.take(places)]) if training.batch_unit == "characters" else None
        template = template_of(request.bundle.decoder)
        limit = min(training.max_length, request.bundle.max_positions)
        self._all = Conversations(
            (conversations[place] for place in places.tolist()), template, self._learnt, limit, costs
        )
        self.left_out: Mapping[str, int] = self._all.left_out
        self._places = np.flatnonzero(self._all.usable)
        if not len(self._places):
            reasons = ", ".join(f"{reason.replace('_', ' ')} {count}" for reason, count in self.left_out.items())
            hint = "Set a larger finetune.max_length, or see what the conversations hold."
            raise UserError(f"no conversation has an answer to learn ({reasons})", where="finetune", hint=hint)
        self.cut = int((~self._all.whole[self._places]).sum())
        self.texts: Mapping[SideName, Iterable[str]] = {"decoder": text.take(places[self._places])}
        self._dev = list(islice(corpus.conversations("dev"), training.dev_sentences))

    @property
    def lengths(self) -> np.ndarray:
        return self._all.lengths[self._places]

    def batch(self, indices: np.ndarray, epoch: int) -> StackBatch:
        return self._all.batch(self._places[indices], epoch)

    def loss(self, bundle: Bundle) -> StackLoss:
        return StackLoss(bundle.model, self._training.label_smoothing)

    def dev_scores(self, bundle: Bundle) -> ConversationScores:
        return ConversationScores(bundle, self._dev, self._learnt, self._training)


FINETUNINGS: Mapping[str, Callable[[Any, Request, FinetuneSettings], TaskText]] = {
    "translation": PairsOfTask.of,
    "causal": LinesOfTask,
    "conditioned": SourcedOfTask,
    "conditioned-on-text": SourcedOfTask,
    "conditioned-on-features": SourcedOfTask,
    "chat": ConversationsOfTask,
}


def task_text(settings: TaskObjectiveSettings, request: Request, training: FinetuneSettings) -> TaskText:
    """The text of a task with this objective."""
    return FINETUNINGS[settings.kind](settings, request, training)
