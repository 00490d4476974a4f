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

from subgraft.conditioning.copying import Copied, TargetStates
from subgraft.conditioning.sources import ClassSource, FeatureSource, NoSource, Source, TextSource, padded, row_counts
from subgraft.config.training import TrainingSettings
from subgraft.errors import UserError
from subgraft.metrics.bits import bits_per_character, count_characters
from subgraft.models.bundle import Bundle
from subgraft.models.families import family_of
from subgraft.models.precision import autocast
from subgraft.objectives.causal import Lines, padding_of
from subgraft.objectives.content_selection import selection_loss
from subgraft.objectives.lexicon import IGNORED, Lexicon, OwnTables
from subgraft.objectives.objective import TokenLoss
from subgraft.objectives.reference_nats import BATCH_TOKENS, label_nats
from subgraft.objectives.stack import StackBatch, StackStates, collate
from subgraft.text.batches import BatchPlan


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
        self._sources, self._padding = sources, padding_of(bundle.decoder)
        self._lengths: np.ndarray = np.maximum(self._lines.lengths, row_counts(sources) if costs is None else costs)
        self.whole = self._lines.whole

    @property
    def lengths(self) -> np.ndarray:
        return self._lengths

    def batch(self, indices: np.ndarray, epoch: int) -> SourcedBatch:
        text = collate([self._lines.example(int(index), epoch) for index in indices], self._padding)
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

    def states(self, batch: SourcedBatch, lexicon: Lexicon) -> SourcedStates:
        return SourcedStates(self.model, batch, lexicon)

    def by(self, lexicon: Lexicon, batch: SourcedBatch) -> dict[str, Tensor]:
        states = self.states(batch, lexicon)
        if states.copied is None:
            return {"loss": lexicon.cross_entropy(states.top, batch.labels, self.label_smoothing)}
        assert not self.label_smoothing and not lexicon.extends("decoder")
        losses = {"loss": states.nats().sum()}
        if self.training and (selection := states.copied.selection) is not None:
            losses["selection"] = selection_loss(selection, batch.source, batch.source_mask, batch.labels)
        return losses


def losses_of(bundle: Bundle) -> tuple[str, ...]:
    """The names of the losses that a model learns from, each a mean of its own."""
    selects = family_of(bundle.model).selects(bundle.model.config.to_dict())
    return ("loss", "selection") if selects else ("loss",)


class SourcedScores:
    """Bits per character of lines given their sources; lines that the model cannot take whole are left out."""

    def __init__(
        self,
        bundle: Bundle,
        lines: Sequence[str],
        sources: Sequence[np.ndarray],
        separator: int,
        training: TrainingSettings,
    ) -> None:
        self._lines = SourcedLines(lines, sources, bundle, separator, bundle.max_positions)
        self._whole = np.flatnonzero(self._lines.whole)
        if not len(self._whole):
            raise UserError(
                f"no dev line fits into the {bundle.max_positions} tokens that the model takes",
                hint="Give a model of more positions (model.max_positions), or dev lines of fewer tokens.",
            )
        self._characters = count_characters(lines[place] for place in self._whole.tolist())
        size = max(training.batch_size, bundle.max_positions)
        self._plan = BatchPlan(self._lines.lengths[self._whole], size, seed=0)
        self._loss, self._precision = SourcedLoss(bundle.model), training.precision

    @torch.no_grad()
    def __call__(self) -> dict[str, float]:
        where = next(self._loss.parameters()).device
        total = 0.0
        for indices in self._plan.epoch(0):
            batch = self._lines.batch(self._whole[indices], 0).to(where)
            with autocast(where, self._precision):
                total += float(self._loss(batch)["loss"])
        return {"bits_per_character": bits_per_character(total, self._characters)}


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
    bundle.model.train(False)
    limit, where = bundle.max_positions, next(bundle.model.parameters()).device
    data = SourcedLines(lines, sources, bundle, separator, limit)
    whole = np.flatnonzero(data.whole)
    done = 0
    for chosen in BatchPlan(data.lengths[whole], max(BATCH_TOKENS, limit), seed=0).epoch(0):
        batch = data.batch(whole[chosen], 0).to(where)
        with torch.inference_mode():
            nats = SourcedStates(bundle.model, batch, OwnTables(bundle.model)).nats().double().cpu().numpy()
        lengths = (batch.labels != IGNORED).sum(dim=1).tolist()
        yield from zip(whole[chosen].tolist(), np.split(nats, np.cumsum(lengths)[:-1]), strict=True)
        done += len(chosen)
        if progress is not None:
            progress(done, len(whole), "sentences")


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
