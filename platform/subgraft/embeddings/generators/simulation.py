"""Batches for generator training: one side re-segmented, and the generator's input for the simulated tokens.

Simulation is the same for all objectives; a `GeneratorView` contains what differs between them.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from subgraft.config.initialisers import Negatives, ResegmentationSettings
from subgraft.embeddings.generators.generator import RaggedSimilar
from subgraft.embeddings.generators.matched_resegment import CheapestSegmentations, MatchedResegmenter, profiles_of
from subgraft.embeddings.generators.resegment import Resegmentation, Resegmenter, SimulatedToken, unchanged
from subgraft.modeling.precision import to_device
from subgraft.subwords.similar_tokens.finder import Relation, SimilarTokenFinder, related_subwords
from subgraft.subwords.vocabulary.entry import Entry
from subgraft.subwords.vocabulary.tokenizer import Tokenizer
from subgraft.training.objectives.compute.embedding_view import CompetingTokens
from subgraft.training.objectives.compute.interface import Body, GeneratorView, TokenBatch


@dataclass(frozen=True)
class SpanPairs:
    """The tokens of `count` spans in both segmentations.

    original, resegmented: int64 [tokens, 3], columns (sentence, position among the side's labels or inputs, span).
    """

    original: Tensor
    resegmented: Tensor
    count: int

    def to(self, device: torch.device | str) -> SpanPairs:
        return SpanPairs(to_device(self.original, device), to_device(self.resegmented, device), self.count)


@dataclass(frozen=True)
class GeneratorBatch:
    """A batch of examples with simulated tokens.

    Attributes:
        original: the unchanged examples.
        resegmented: the examples with one side re-segmented; ids from V on are the K new tokens.
        predicted: `resegmented` with tokens hidden, or the same object if the objective hides none.
        new: the generator's input for the new tokens.
        competing_tokens: the classes of the softmax.
        spans: the spans of `original` and `resegmented`.
    """

    original: TokenBatch
    resegmented: TokenBatch
    predicted: TokenBatch
    new: Any
    competing_tokens: CompetingTokens
    spans: SpanPairs

    @property
    def counts(self) -> dict[str, int]:
        others = {name: count for name, count in self.predicted.counts.items() if name != "loss"}
        return {"prediction": self.predicted.counts["loss"], **others, "distillation": self.spans.count}

    @property
    def shape(self) -> tuple[int, int]:
        return max(self.original.shape, self.resegmented.shape)

    def to(self, device: torch.device | str) -> GeneratorBatch:
        original, resegmented = self.original.to(device), self.resegmented.to(device)
        predicted = resegmented if self.predicted is self.resegmented else self.predicted.to(device)
        new, competing_tokens, spans = self.new.to(device), self.competing_tokens.to(device), self.spans.to(device)
        return GeneratorBatch(original, resegmented, predicted, new, competing_tokens, spans)


class SimulatedBatches(ABC):
    """Generator batches of an objective's examples; simulation is a function of (seed, epoch, index).

    Args:
        view: the objective's view of the side whose tokens are simulated.
        seed: the seed of the simulation.
        max_positions: the model's limit of positions, because splitting makes sentences longer.
    """

    def __init__(self, view: GeneratorView[Any], seed: int, max_positions: int | None) -> None:
        self._view = view
        self._seed = seed
        self._max_positions = max_positions

    @property
    def lengths(self) -> np.ndarray:
        return self._view.lengths

    def batch(self, indices: np.ndarray, epoch: int) -> GeneratorBatch:
        """The generator batch of the examples at `indices`."""
        view = self._view
        examples = [view.original(int(index), epoch) for index in indices]
        bodies = [view.body(example) for example in examples]
        rngs = [np.random.default_rng([self._seed, epoch, int(index), 1]) for index in indices]
        results = [self._fitting(body, rng) for body, rng in zip(bodies, rngs, strict=True)]
        sentences, new, competing_tokens = self.collect(results, rngs[0])
        rebuilt = [view.rebuild(example, body) for example, body in zip(examples, sentences, strict=True)]
        corrupted = [view.corrupt(example, rng) for example, rng in zip(rebuilt, rngs, strict=True)]
        resegmented = view.collate(rebuilt)
        hides = any(hidden is not clean for hidden, clean in zip(corrupted, rebuilt, strict=True))
        return GeneratorBatch(
            view.collate(examples),
            resegmented,
            view.collate(corrupted) if hides else resegmented,
            new,
            competing_tokens,
            span_pairs(results, [body.start for body in bodies]),
        )

    def _fitting(self, body: Body, rng: np.random.Generator) -> Resegmentation:
        """A sentence with simulated tokens; unchanged if it would become longer than the model can read."""
        result, limit = self.resegment(body.tokens, rng), self._max_positions
        return result if limit is None or len(result.tokens) + body.around <= limit else unchanged(body.tokens)

    @abstractmethod
    def resegment(self, tokens: Sequence[int], rng: np.random.Generator) -> Resegmentation:
        """Re-segment one sentence with simulated tokens."""

    @abstractmethod
    def collect(
        self, results: Sequence[Resegmentation], rng: np.random.Generator
    ) -> tuple[list[list[int]], Any, CompetingTokens]:
        """Combine the results of a batch.

        Returns:
            The tokens of each sentence, where ids from V on are the batch's new tokens; the generator's input for the
            new tokens; and the classes of the softmax.
        """


class Simulator(SimulatedBatches):
    """Simulates tokens by merging and splitting, or by finding parts of words that resemble a task's new tokens.

    Args:
        view: the objective's view of the side whose tokens are simulated.
        tokenizer: the vocabulary of that side.
        settings: rates of the simulation.
        max_similar: cap on similar tokens.
        seed: the seed of the simulation.
        max_positions: the model's limit of positions.
        negatives: whether new tokens compete in their sentence or in the batch.
        target: the task's vocabulary, if its new tokens are imitated.
    """

    def __init__(
        self,
        view: GeneratorView[Any],
        tokenizer: Tokenizer,
        settings: ResegmentationSettings,
        max_similar: int,
        seed: int,
        max_positions: int | None = None,
        negatives: Negatives = "sentence",
        target: Tokenizer | None = None,
    ) -> None:
        super().__init__(view, seed, max_positions)
        self._ids = tokenizer.ids
        self._size = len(tokenizer)
        self._negatives = negatives
        self._resegment = resegmenter(tokenizer, settings, max_similar, target)
        self._similar = SimilarCache(tokenizer, max_similar)

    def resegment(self, tokens: Sequence[int], rng: np.random.Generator) -> Resegmentation:
        return self._resegment(tokens, rng)

    def collect(
        self, results: Sequence[Resegmentation], rng: np.random.Generator
    ) -> tuple[list[list[int]], Any, CompetingTokens]:
        del rng
        new, sentences = number_new(results, self._size)
        return (
            sentences,
            self._similar(list(new)),
            competing_tokens(results, new, self._ids, self._size, self._negatives),
        )


def resegmenter(
    tokenizer: Tokenizer, settings: ResegmentationSettings, max_similar: int, target: Tokenizer | None
) -> Resegmenter | MatchedResegmenter:
    """The configured re-segmentation. Raises UserError if the target has no new tokens to imitate."""
    if settings.match is None:
        return Resegmenter(tokenizer, settings)
    assert target is not None
    return MatchedResegmenter(tokenizer, profiles_of(tokenizer, target, max_similar), settings.match_rate)


def number_new(results: Sequence[Resegmentation], size: int) -> tuple[dict[SimulatedToken, int], list[list[int]]]:
    """The new tokens of a batch, numbered from 0, and each sentence's ids, in which new tokens count from `size`."""
    new: dict[SimulatedToken, int] = {}
    for result in results:
        for token in result.new:
            new.setdefault(token, len(new))
    return new, [[t if t < size else size + new[r.new[t - size]] for t in r.tokens] for r in results]


def competing_tokens(
    results: Sequence[Resegmentation],
    new: Mapping[SimulatedToken, int],
    ids: Mapping[Entry, int],
    size: int,
    negatives: Negatives,
) -> CompetingTokens:
    """The classes of the softmax: a sentence's own new tokens, or all of the batch."""
    own = np.full((len(results), len(new)), negatives == "batch")
    for row, result in enumerate(results):
        own[row, [new[token] for token in result.new]] = True
    spellings: dict[Entry, int] = {}
    spelling = [ids.get(token.entry, size + spellings.setdefault(token.entry, len(spellings))) for token in new]
    return CompetingTokens.of(torch.from_numpy(own), torch.tensor(spelling, dtype=torch.long))


def span_pairs(results: Sequence[Resegmentation], begins: Sequence[int]) -> SpanPairs:
    """The spans of a batch of sentences as index columns. begins: position of each sentence's first token."""
    original: list[tuple[int, int, int]] = []
    resegmented: list[tuple[int, int, int]] = []
    count = 0
    for row, (result, first) in enumerate(zip(results, begins, strict=True)):
        for span in result.spans:
            original.extend((row, first + position, count) for position in range(*span.original))
            resegmented.extend((row, first + position, count) for position in range(*span.resegmented))
            count += 1
    return SpanPairs(_columns(original), _columns(resegmented), count)


def _columns(rows: list[tuple[int, int, int]]) -> Tensor:
    return torch.tensor(rows, dtype=torch.long).reshape(-1, 3)


_Pairs = tuple[NDArray[np.int64], NDArray[np.int8]]  # ids and relations


class SimilarCache:
    """A cache of the similar tokens Sm(w) of simulated tokens, limited to their subwords and hyperwords."""

    def __init__(self, tokenizer: Tokenizer, max_similar: int) -> None:
        self._finder = SimilarTokenFinder(tokenizer, max_similar)
        self._ordinary = torch.from_numpy(tokenizer.ordinary_ids)
        self._cache: dict[SimulatedToken, _Pairs] = {}

    def __call__(self, tokens: Sequence[SimulatedToken]) -> RaggedSimilar:
        missing = [token for token in tokens if token not in self._cache]
        if missing:
            similar = self._finder.find([token.entry for token in missing])
            for row, token in enumerate(missing):
                pairs = slice(similar.offsets[row], similar.offsets[row + 1])
                self._cache[token] = self._limit(token, similar.token_ids[pairs], similar.relations[pairs])
        rows = [self._cache[token] for token in tokens]
        sizes = torch.tensor([len(ids) for ids, _ in rows], dtype=torch.long)
        offsets = torch.cat([torch.zeros(1, dtype=torch.long), sizes.cumsum(0)])
        empty = np.zeros(0, dtype=np.int64)
        return RaggedSimilar(
            offsets,
            torch.from_numpy(np.concatenate([empty, *(ids for ids, _ in rows)])).long(),
            torch.from_numpy(np.concatenate([empty, *(relations for _, relations in rows)])).long(),
            torch.repeat_interleave(torch.arange(len(rows)), sizes),
            self._ordinary,
        )

    @cached_property
    def _segmentations(self) -> CheapestSegmentations:
        return CheapestSegmentations(self._finder.tokenizer)

    def _limit(self, token: SimulatedToken, ids: NDArray[np.int64], relations: NDArray[np.int8]) -> _Pairs:
        """The similar tokens, limited to the token's numbers of subwords and hyperwords."""
        if token.subwords is None or token.hyperwords is None:
            return ids, relations
        pieces = self._segmentations.of(token.entry)[token.subwords]
        assert pieces is not None, token
        subwords, their_relations = related_subwords(pieces)
        hyperwords = np.flatnonzero(relations >= Relation.PREFIX_HYPERWORD)[: token.hyperwords]
        return np.concatenate([subwords, ids[hyperwords]]), np.concatenate([their_relations, relations[hyperwords]])
