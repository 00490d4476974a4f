"""Lines given a source, which need not be text: each token given those before it (Ziegler et al., 2019)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn.functional import binary_cross_entropy_with_logits

from subgraft.config.training import TrainingSettings
from subgraft.modeling.bundle import Bundle
from subgraft.modeling.conditioning.copying import Copied, TargetStates
from subgraft.modeling.conditioning.sources import (
    ClassSource,
    FeatureSource,
    NoSource,
    Source,
    TextSource,
    padded,
    row_counts,
)
from subgraft.modeling.families import family_of
from subgraft.training.objectives.causal import Lines, LineScores
from subgraft.training.objectives.embedding_view import IGNORED, EmbeddingView, ModelEmbeddings
from subgraft.training.objectives.objective import TokenLoss
from subgraft.training.objectives.single_stack import StackBatch, StackStates
from subgraft.training.objectives.whole_examples import BATCH_TOKENS, WholeExamples, label_nats


@dataclass(frozen=True)
class SourcedBatch(StackBatch):
    """Lines as a stack reads them, with a padded source [B, S] or [B, S, k] and its mask [B, S]."""

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
    """Lines with the source of each, encoded. whole: which lines lose nothing to `max_length` [n].

    costs: what reading each source costs in a batch [n], which counts where it is more than its line costs; by default
    its rows.
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
        self._lengths: np.ndarray = np.maximum(self._lines.lengths, row_counts(sources) if costs is None else costs)
        self.whole = self._lines.whole

    @property
    def lengths(self) -> np.ndarray:
        return self._lengths

    def batch(self, indices: np.ndarray, epoch: int) -> SourcedBatch:
        text = self._lines.batch(indices, epoch)
        source, mask = padded([self._sources[int(index)] for index in indices])
        return SourcedBatch(text.input_ids, text.attention_mask, text.labels, source, mask)


class SourcedStates(StackStates):
    """Beside the source; a language model that has none does not look at it."""

    _batch: SourcedBatch

    @cached_property
    def top(self) -> Tensor:
        return self._target.top

    @property
    def copied(self) -> Copied | None:
        """What is copied from the source, by models that copy."""
        return self._target.copied

    def nats(self) -> Tensor:
        """The negative log-likelihood of each label that counts, by the model's own tables [N], line after line."""
        labels = self._batch.labels
        generated = label_nats(self._model, self.top, labels)
        if self.copied is None:
            return generated
        counted = labels != IGNORED
        whole = generated.new_zeros(labels.shape).masked_scatter(counted, -generated)
        return -self.copied.log_likelihood(whole, labels)[counted]

    @cached_property
    def _target(self) -> TargetStates:
        batch = self._batch
        inputs = self._lexicon.read("decoder", batch.input_ids)
        return family_of(self._model).states_with_source(
            self._model, batch.source, batch.source_mask, attention_mask=batch.attention_mask, **inputs
        )


class SourcedLoss(TokenLoss):
    """Over the tokens of lines and their ends; of a model that copies, by the likelihood of its mixture.

    A content selector learns by a loss of its own, over the tokens of sources.
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
    """The names of the losses that a model learns from, each a mean of its own."""
    selects = family_of(bundle.model).selects(bundle.model.config.to_dict())
    return ("loss", "selection") if selects else ("loss",)


class SourcedScores(LineScores):
    """Of lines given their sources."""

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


def sourced_nats(
    bundle: Bundle,
    lines: Sequence[str],
    sources: Sequence[np.ndarray],
    separator: int,
    progress: Callable[[int, int, str], None] | None = None,
) -> Iterator[tuple[int, NDArray[np.float64]]]:
    """For each line that the model takes whole: its place, and the nats of its tokens and what ends them.

    By length, not in order.
    """
    model, limit = bundle.model, bundle.max_positions
    examples = SourcedLines(lines, sources, bundle, separator, limit)

    def token_nats(batch: SourcedBatch) -> Tensor:
        return SourcedStates(model, batch, ModelEmbeddings(model)).nats()

    return WholeExamples(examples, examples.whole, max(BATCH_TOKENS, limit)).nats(model, token_nats, progress)


def source_read(bundle: Bundle) -> Source[Any]:
    """How what a model writes for becomes tensors; nothing, of whatever it is given, where the model has no source."""
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


# Which tokens of a source its target has, as a content selector learns them (Gehrmann et al., EMNLP 2018).


def spans_in_target(source: Sequence[int], target: Sequence[int]) -> list[bool]:
    """Of each token of the source, whether it is copied (section 3.1).

    It is where it belongs to a run of tokens that the target has, the longest there is from where the run before it
    ended, and no earlier run was of the same tokens.
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
    """The end of the longest run from `start` on that the target has somewhere."""
    end, places = start, [at for at, token in enumerate(target) if token == source[start]]
    while places:
        end += 1
        places = [at + 1 for at in places if end < len(source) and target[at + 1 : at + 2] == source[end : end + 1]]
    return end


def selection_loss(log_odds: Tensor, source: Tensor, mask: Tensor, labels: Tensor) -> Tensor:
    """Cross entropy of a selector, summed over the tokens of sources, in nats.

    log_odds, of being copied, source and its mask, behind whose tokens all is padding: [B, S].  labels: ids of targets
    [B, T], below zero where there is none.
    """
    copied = torch.zeros(log_odds.shape, dtype=log_odds.dtype)
    lengths = mask.sum(1).tolist()
    for place, (row, length, target) in enumerate(zip(source.tolist(), lengths, labels.tolist(), strict=True)):
        found = spans_in_target(row[:length], [token for token in target if token >= 0])
        copied[place, :length] = torch.tensor(found, dtype=copied.dtype)
    weights = mask.to(log_odds.dtype)
    return binary_cross_entropy_with_logits(log_odds, copied.to(log_odds.device), weights, reduction="sum")
