"""Conditional language modelling: lines given a source, which need not be text (Ziegler et al., 2019)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn.functional import binary_cross_entropy_with_logits

from subgraft.base.progress import ProgressCallback
from subgraft.config.settings_base import SideName
from subgraft.config.training import FinetuneSettings, TrainingSettings
from subgraft.modeling.bundle import Bundle
from subgraft.modeling.conditioning.copying import Copied, TargetStates
from subgraft.modeling.conditioning.sources import (
    ClassSource,
    FeatureSource,
    NoSource,
    Source,
    Sourced,
    TextSource,
    pad_sources,
    row_counts,
)
from subgraft.modeling.families import family_of
from subgraft.training.objectives.compute.causal import Lines, LineScores, separator_of, set_bos_token
from subgraft.training.objectives.compute.embedding_view import IGNORED, EmbeddingView, ModelEmbeddings
from subgraft.training.objectives.compute.interface import ObjectiveInputs, TokenLoss, selected_examples
from subgraft.training.objectives.compute.single_stack import StackBatch, StackStates
from subgraft.training.objectives.compute.whole_examples import BATCH_TOKENS, WholeExamples, label_nats
from subgraft.training.objectives.conditioned import AnyConditionedSettings


@dataclass(frozen=True)
class SourcedBatch(StackBatch):
    """A batch of lines with a padded source [B, S] or [B, S, k] and its mask [B, S]."""

    source: Tensor
    source_mask: Tensor

    @property
    def counts(self) -> dict[str, int]:
        return {**super().counts, "selection": int(self.source_mask.sum())}

    @property
    def shape(self) -> tuple[int, int]:
        sentences, tokens = super().shape
        return sentences, tokens + self.source.shape[1]


class SourcedLines:
    """Lines with their encoded sources.

    Args:
        lines: the text.
        sources: the encoded source of each line.
        bundle: the model and its tokenizers.
        separator: the id of the token around lines.
        max_length: limit of a line in tokens.
        batch_unit: the cost of a line in a batch.
        costs: the cost of each source in a batch [n], by default its number of rows. The cost of an example is the
            larger of the costs of its line and its source.

    Attributes:
        whole: which lines are not truncated [n].
    """

    def __init__(
        self,
        lines: Sequence[str],
        sources: Sequence[np.ndarray],
        bundle: Bundle,
        separator: int,
        max_length: int,
        batch_unit: Literal["tokens", "characters"] = "tokens",
        costs: np.ndarray | None = None,
    ) -> None:
        self._lines = Lines(lines, bundle.decoder, separator, max_length, batch_unit)
        self._sources = sources
        self.lengths: np.ndarray = np.maximum(self._lines.lengths, row_counts(sources) if costs is None else costs)
        self.whole = self._lines.whole

    def batch(self, indices: np.ndarray, epoch: int) -> SourcedBatch:
        text = self._lines.batch(indices, epoch)
        source, mask = pad_sources([self._sources[int(index)] for index in indices])
        return SourcedBatch(text.input_ids, text.attention_mask, text.labels, source, mask)


class SourcedStates(StackStates):
    """States of lines given their sources; a model without sources ignores them."""

    _batch: SourcedBatch

    @cached_property
    def top(self) -> Tensor:
        return self._target.top

    @property
    def copied(self) -> Copied | None:
        """The copy distribution of models that copy from the source."""
        return self._target.copied

    def nats(self) -> Tensor:
        """The negative log-likelihood of each label that is not IGNORED [N], by the model's own embeddings."""
        labels = self._batch.labels
        generated = label_nats(self._model, self.top, labels)
        if self.copied is None:
            return generated
        is_label = labels != IGNORED
        log_likelihoods = generated.new_zeros(labels.shape).masked_scatter(is_label, -generated)
        return -self.copied.log_likelihood(log_likelihoods, labels)[is_label]

    @cached_property
    def _target(self) -> TargetStates:
        batch = self._batch
        inputs = self._embedding_view.read("decoder", batch.input_ids)
        return family_of(self._model).states_with_source(
            self._model, batch.source, batch.source_mask, attention_mask=batch.attention_mask, **inputs
        )


class SourcedLoss(TokenLoss):
    """The loss over the tokens of lines and their ends. For models that copy, it is that of the mixture distribution.

    A content selector has a separate loss, over the tokens of sources.
    """

    def states(self, batch: SourcedBatch, embedding_view: EmbeddingView) -> SourcedStates:
        return SourcedStates(self.model, batch, embedding_view)

    def by(self, embedding_view: EmbeddingView, batch: SourcedBatch) -> dict[str, Tensor]:
        states = self.states(batch, embedding_view)
        if states.copied is None:
            return {"loss": embedding_view.cross_entropy(states.top, batch.labels, self.label_smoothing)}
        assert not self.label_smoothing and not embedding_view.extends("decoder")
        losses = {"loss": states.nats().sum()}
        if self.training and (selection := states.copied.selection) is not None:
            losses["selection"] = selection_loss(selection, batch.source, batch.source_mask, batch.labels)
        return losses


def losses_of(bundle: Bundle) -> tuple[str, ...]:
    """The names of a model's losses, each of which is averaged separately."""
    selects = family_of(bundle.model).selects(bundle.model.config.to_dict())
    return ("loss", "selection") if selects else ("loss",)


class SourcedScores(LineScores):
    """Bits per character of lines given their sources."""

    def __init__(
        self,
        bundle: Bundle,
        lines: Sequence[str],
        sources: Sequence[np.ndarray],
        separator: int,
        training: TrainingSettings,
    ) -> None:
        examples = SourcedLines(lines, sources, bundle, separator, bundle.max_positions)
        super().__init__(bundle, lines, examples, SourcedLoss(bundle.model), training)


class TaskSourcedLines(SourcedLines):
    """The lines of a task with their sources."""

    def __init__(self, settings: AnyConditionedSettings, request: ObjectiveInputs, training: FinetuneSettings) -> None:
        corpus, bundle, source = request.corpus, request.bundle, settings.source
        assert source is not None
        sourced = Sourced.of(corpus, "train", source)
        indices = selected_examples(len(sourced.texts), training, request.seed)
        sourced = sourced if indices is None else sourced.take(indices)
        sourced = sourced.shuffled(request.seed) if training.shuffled_sources else sourced
        self._separator, self._training = separator_of(bundle.decoder, settings), training
        self._read = source_read(bundle)
        sources = self._read.encode(sourced.sources)
        limit = min(training.max_length, bundle.max_positions)  # a prepended source takes some of the positions
        costs = sourced.costs() if training.batch_unit == "characters" else None
        super().__init__(sourced.texts, sources, bundle, self._separator, limit, training.batch_unit, costs)
        self.truncated = int((~self.whole).sum())
        self.texts: Mapping[SideName, Iterable[str]] = {"decoder": sourced.texts}
        self._dev = Sourced.of(corpus, "dev", source).first(training.dev_sentences)

    def loss(self, bundle: Bundle) -> nn.Module:
        set_bos_token(bundle.model, self._separator)
        return SourcedLoss(bundle.model, self._training.label_smoothing)

    def dev_scores(self, bundle: Bundle) -> SourcedScores:
        sources = self._read.encode(self._dev.sources)
        return SourcedScores(bundle, list(self._dev.texts), sources, self._separator, self._training)


def sourced_nats(
    bundle: Bundle,
    lines: Sequence[str],
    sources: Sequence[np.ndarray],
    separator: int,
    progress: ProgressCallback | None = None,
) -> Iterator[tuple[int, NDArray[np.float64]]]:
    """The index of each line that is not truncated, and the nats of its tokens and its end; ordered by length."""
    model, limit = bundle.model, bundle.max_positions
    examples = SourcedLines(lines, sources, bundle, separator, limit)

    def token_nats(batch: SourcedBatch) -> Tensor:
        return SourcedStates(model, batch, ModelEmbeddings(model)).nats()

    return WholeExamples(examples, examples.whole, max(BATCH_TOKENS, limit)).nats(model, token_nats, progress)


def source_read(bundle: Bundle) -> Source[Any]:
    """The encoder of a model's sources as arrays, which are empty for a model without sources."""
    settings = family_of(bundle.model).source(bundle.model.config.to_dict())
    if settings is None:
        return NoSource()
    if settings.kind == "class":
        return ClassSource(settings.classes)
    if settings.kind == "features":
        return FeatureSource(settings.features, settings.rows)
    if settings.kind == "pretrained-text":
        return TextSource(bundle.encoder, settings.max_length, (settings.beginning, settings.ending))
    return TextSource(bundle.decoder if settings.kind == "own-text" else bundle.encoder, settings.max_length)


# The targets of a content selector: the tokens of a source that its target copies (Gehrmann et al., EMNLP 2018).


def spans_in_target(source: Sequence[int], target: Sequence[int]) -> list[bool]:
    """Whether each token of the source is copied (section 3.1).

    Starting where the previous run ended, the longest run of tokens that occurs in the target counts as copied, unless
    an earlier run had the same tokens.
    """
    copied, seen, start = [False] * len(source), set(), 0
    while start < len(source):
        end = _end_of_run(source, start, target)
        run = tuple(source[start:end])
        if run and run not in seen:
            seen.add(run)
            copied[start:end] = [True] * len(run)
        start = max(end, start + 1)
    return copied


def _end_of_run(source: Sequence[int], start: int, target: Sequence[int]) -> int:
    """The end of the longest run from `start` that occurs in the target."""
    end, positions = start, [position for position, token in enumerate(target) if token == source[start]]
    while positions:
        end += 1
        positions = [
            position + 1
            for position in positions
            if end < len(source) and target[position + 1 : position + 2] == source[end : end + 1]
        ]
    return end


def selection_loss(log_odds: Tensor, source: Tensor, mask: Tensor, labels: Tensor) -> Tensor:
    """Cross entropy of a content selector, summed over the tokens of sources, in nats.

    Args:
        log_odds: the selector's log-odds that a token is copied [B, S].
        source: the ids of sources [B, S].
        mask: zero for padding, which is on the right [B, S].
        labels: the ids of targets, negative for padding [B, T].
    """
    copied = torch.zeros(log_odds.shape, dtype=log_odds.dtype)
    lengths = mask.sum(1).tolist()
    for index, (row, length, target) in enumerate(zip(source.tolist(), lengths, labels.tolist(), strict=True)):
        copies = spans_in_target(row[:length], [token for token in target if token >= 0])
        copied[index, :length] = torch.tensor(copies, dtype=copied.dtype)
    weights = mask.to(log_odds.dtype)
    return binary_cross_entropy_with_logits(log_odds, copied.to(log_odds.device), weights, reduction="sum")
