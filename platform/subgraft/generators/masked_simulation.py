"""Batches for training a generator on a masked language model: sentences re-segmented, then masked."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch

from subgraft.config.initialisers import Negatives, ResegmentationSettings
from subgraft.generators.generator import RaggedSimilar
from subgraft.generators.similar_cache import SimilarCache
from subgraft.generators.simulation import Rivals, SpanPairs, number_new, resegmenter, rivals, span_pairs
from subgraft.objectives.masked import MaskedBatch, MaskedSentences, collate
from subgraft.vocabulary.tokenizer import Tokenizer


@dataclass(frozen=True)
class MaskedGeneratorBatch:
    """Sentences three times over: as they are, re-segmented, and re-segmented with tokens hidden.

    Ids of at least V stand for the batch's new tokens, among labels too; their similar tokens are `new` (K of them).
    spans: of `original` and `resegmented`.
    """

    original: MaskedBatch
    resegmented: MaskedBatch
    hidden: MaskedBatch
    new: RaggedSimilar
    rivals: Rivals
    spans: SpanPairs

    @property
    def counts(self) -> dict[str, int]:
        return {"prediction": self.hidden.counts["loss"], "distillation": self.spans.count}

    @property
    def shape(self) -> tuple[int, int]:
        return max(self.original.shape, self.resegmented.shape)

    def to(self, device: torch.device | str) -> MaskedGeneratorBatch:
        whole = self.original.to(device), self.resegmented.to(device), self.hidden.to(device)
        return MaskedGeneratorBatch(*whole, self.new.to(device), self.rivals.to(device), self.spans.to(device))


class MaskedSimulator:
    """Turns sentences into generator batches; what is simulated and hidden is a function of (seed, epoch, index).

    max_positions: the longest sequence that the model takes; splitting makes sentences longer.
    target: the task's vocabulary, where the settings simulate tokens like its new ones.
    """

    def __init__(
        self,
        sentences: MaskedSentences,
        tokenizer: Tokenizer,
        settings: ResegmentationSettings,
        max_similar: int,
        seed: int,
        max_positions: int | None = None,
        negatives: Negatives = "sentence",
        target: Tokenizer | None = None,
    ) -> None:
        self._longest = None if max_positions is None else max_positions - 2  # its beginning and its end
        self._sentences = sentences
        self._ids = tokenizer.ids
        self._size = len(tokenizer)
        self._negatives = negatives
        self._padding = tokenizer.special["pad"]
        self._resegment = resegmenter(tokenizer, settings, max_similar, target)
        self._similar = SimilarCache(tokenizer, max_similar)
        self._seed = seed

    @property
    def lengths(self) -> np.ndarray:
        return self._sentences.lengths

    def batch(self, indices: np.ndarray, epoch: int) -> MaskedGeneratorBatch:
        """The generator batch of the sentences at `indices`."""
        masking = self._sentences.masking
        bodies = [self._sentences.body(int(index)) for index in indices]
        randomness = [np.random.default_rng([self._seed, epoch, int(index), 1]) for index in indices]
        results = [self._resegment(body, drawn, self._longest) for body, drawn in zip(bodies, randomness, strict=True)]
        new, changed = number_new(results, self._size)
        return MaskedGeneratorBatch(
            collate([masking.whole(body) for body in bodies], self._padding),
            collate([masking.whole(body) for body in changed], self._padding),
            collate([masking(body, drawn) for body, drawn in zip(changed, randomness, strict=True)], self._padding),
            self._similar(list(new)),
            rivals(results, new, self._ids, self._size, self._negatives),
            span_pairs(results, begins=1),
        )
