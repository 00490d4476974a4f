"""Batches for generator training: one side re-segmented, with the similar tokens of what is new in it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor

from subgraft.config.base import SideName
from subgraft.config.initialisers import Negatives, ResegmentationSettings
from subgraft.generators.generator import RaggedSimilar
from subgraft.generators.matched_resegment import MatchedResegmenter
from subgraft.generators.resegment import Resegmentation, Resegmenter, SimulatedToken
from subgraft.generators.similar_cache import SimilarCache
from subgraft.generators.token_profiles import profiles_of
from subgraft.objectives.seq2seq import Example, Objective, Seq2SeqBatch, collate
from subgraft.vocabulary.entry import Entry
from subgraft.vocabulary.tokenizer import Tokenizer


@dataclass(frozen=True)
class SpanPairs:
    """Tokens of `count` spans in both segmentations.

    For every token that lies in a span: its sentence and position in the side's labels or inputs, and its span.
    original, resegmented: [tokens, 3] int64 columns (sentence, position, span).
    """

    original: Tensor
    resegmented: Tensor
    count: int

    def to(self, device: torch.device | str) -> SpanPairs:
        return SpanPairs(self.original.to(device), self.resegmented.to(device), self.count)


@dataclass(frozen=True)
class GeneratorBatch:
    """A batch as it is, and with one side re-segmented.

    In `resegmented`, ids of at least V stand for the batch's new tokens, whose similar tokens are `new` (K of them).
    """

    original: Seq2SeqBatch
    resegmented: Seq2SeqBatch
    new: RaggedSimilar
    rivals: Rivals
    spans: SpanPairs

    @property
    def counts(self) -> dict[str, int]:
        return {"prediction": self.resegmented.counts["loss"], "distillation": self.spans.count}

    @property
    def shape(self) -> tuple[int, int]:
        return max(self.original.shape, self.resegmented.shape)

    def to(self, device: torch.device | str) -> GeneratorBatch:
        original, resegmented = self.original.to(device), self.resegmented.to(device)
        spans = self.spans.to(device)
        return GeneratorBatch(original, resegmented, self.new.to(device), self.rivals.to(device), spans)


@dataclass(frozen=True)
class Rivals:
    """Which of a batch's K new tokens a softmax covers, beside the V tokens of the vocabulary.

    own: bool [B, K], those that the sentence competes with.
    spelling: int64 [K], what they spell: the token of the vocabulary that is spelled so, or a number from V on that is
    equal for equal spellings. Two tokens that are spelled alike do not compete.
    """

    own: Tensor
    spelling: Tensor

    def to(self, device: torch.device | str) -> Rivals:
        return Rivals(self.own.to(device), self.spelling.to(device))


class Simulator:
    """Turns examples into generator batches; what is simulated is a function of (seed, epoch, index).

    max_positions: the longest sequence that the model takes; splitting makes sentences longer.
    target: the task's vocabulary, where the settings simulate tokens like its new ones.
    """

    def __init__(
        self,
        objective: Objective,
        tokenizer: Tokenizer,
        side: SideName,
        settings: ResegmentationSettings,
        max_similar: int,
        seed: int,
        padding: tuple[int, int],
        max_positions: int | None = None,
        negatives: Negatives = "sentence",
        target: Tokenizer | None = None,
    ) -> None:
        self._max_positions = max_positions
        self._objective = objective
        self._side = side
        self._seed = seed
        self._ids = tokenizer.ids
        self._size = len(tokenizer)
        self._padding = padding
        self._negatives = negatives
        self._resegment = resegmenter(tokenizer, settings, max_similar, target)
        self._similar = SimilarCache(tokenizer, max_similar)

    @property
    def lengths(self) -> np.ndarray:
        return self._objective.lengths

    def batch(self, indices: np.ndarray, epoch: int) -> GeneratorBatch:
        """The generator batch of the examples at `indices`."""
        examples = [self._objective.example(int(index), epoch) for index in indices]
        results = [
            self._resegment(
                self._body(example), np.random.default_rng([self._seed, epoch, int(index), 1]), self._longest(example)
            )
            for example, index in zip(examples, indices, strict=True)
        ]
        new, bodies = number_new(results, self._size)
        changed = [self._with(example, body) for example, body in zip(examples, bodies, strict=True)]
        return GeneratorBatch(
            collate(examples, *self._padding),
            collate(changed, *self._padding),
            self._similar(list(new)),
            rivals(results, new, self._ids, self._size, self._negatives),
            span_pairs(results, examples[0].source_begins if self._side == "encoder" else 0),
        )

    def _longest(self, example: Example) -> int | None:
        """How many tokens the body of the example may have."""
        if self._max_positions is None:
            return None
        whole = example.target if self._side == "decoder" else example.source
        return self._max_positions - (len(whole) - len(self._body(example)))

    def _body(self, example: Example) -> list[int]:
        if self._side == "decoder":
            return example.target[: example.target_body]
        begins = example.source_begins
        return example.source[begins : begins + example.source_body]

    def _with(self, example: Example, body: list[int]) -> Example:
        """The example with another body on this side."""
        if self._side == "decoder":
            return replace(example, target=body + example.target[example.target_body :], target_body=len(body))
        begins, ends = example.source_begins, example.source_begins + example.source_body
        source = example.source[:begins] + body + example.source[ends:]
        return replace(example, source=source, source_body=len(body))


def resegmenter(
    tokenizer: Tokenizer, settings: ResegmentationSettings, max_similar: int, target: Tokenizer | None
) -> Resegmenter | MatchedResegmenter:
    """What simulates new tokens, as the settings say. Raises UserError where the target has none to be like."""
    if settings.match is None:
        return Resegmenter(tokenizer, settings)
    assert target is not None
    return MatchedResegmenter(tokenizer, profiles_of(tokenizer, target, max_similar), settings.match_rate)


def number_new(results: Sequence[Resegmentation], size: int) -> tuple[dict[SimulatedToken, int], list[list[int]]]:
    """The new tokens of a batch, numbered from 0, and each sentence's tokens, in which new ones count from `size`."""
    new: dict[SimulatedToken, int] = {}
    for result in results:
        for token in result.new:
            new.setdefault(token, len(new))
    return new, [[t if t < size else size + new[r.new[t - size]] for t in r.tokens] for r in results]


def rivals(
    results: Sequence[Resegmentation],
    new: Mapping[SimulatedToken, int],
    ids: Mapping[Entry, int],
    size: int,
    negatives: Negatives,
) -> Rivals:
    """Which of the batch's new tokens compete where: a sentence's own, or all of the batch."""
    own = np.full((len(results), len(new)), negatives == "batch")
    for row, result in enumerate(results):
        own[row, [new[token] for token in result.new]] = True
    spelled: dict[Entry, int] = {}
    spelling = [ids.get(token.entry, size + spelled.setdefault(token.entry, len(spelled))) for token in new]
    return Rivals(torch.from_numpy(own), torch.tensor(spelling, dtype=torch.long))


def span_pairs(results: Sequence[Resegmentation], begins: int = 0) -> SpanPairs:
    """The spans of a batch of sentences as index columns; `begins` special tokens stand before each sentence."""
    original: list[tuple[int, int, int]] = []
    resegmented: list[tuple[int, int, int]] = []
    count = 0
    for row, result in enumerate(results):
        for span in result.spans:
            original.extend((row, begins + position, count) for position in range(*span.original))
            resegmented.extend((row, begins + position, count) for position in range(*span.resegmented))
            count += 1
    return SpanPairs(_columns(original), _columns(resegmented), count)


def _columns(rows: list[tuple[int, int, int]]) -> Tensor:
    return torch.tensor(rows, dtype=torch.long).reshape(-1, 3)
