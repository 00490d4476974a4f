"""Batches for generator training: one side re-segmented, with the similar tokens of what is new in it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor

from subgraft.grafting.generator import RaggedSimilar
from subgraft.grafting.resegment import Resegmentation, Resegmenter
from subgraft.grafting.similar import SimilarTokenFinder
from subgraft.objectives.seq2seq import Example, Objective, Seq2SeqBatch, collate
from subgraft.settings.base import SideName
from subgraft.settings.initialisers import ResegmentationSettings
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
    own: [B, K], which new tokens are a sentence's own: its softmax covers those and no others.
    """

    original: Seq2SeqBatch
    resegmented: Seq2SeqBatch
    new: RaggedSimilar
    own: Tensor
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
        return GeneratorBatch(original, resegmented, self.new.to(device), self.own.to(device), spans)


class SimilarCache:
    """Similar tokens of simulated tokens, each looked up once however often it is drawn again."""

    def __init__(self, tokenizer: Tokenizer, max_similar: int) -> None:
        self._finder = SimilarTokenFinder(tokenizer, max_similar)
        self._ordinary = torch.from_numpy(tokenizer.ordinary_ids)
        self._known: dict[Entry, tuple[np.ndarray, np.ndarray]] = {}

    def __call__(self, entries: Sequence[Entry]) -> RaggedSimilar:
        missing = [entry for entry in entries if entry not in self._known]
        if missing:
            found = self._finder.find(missing)
            for row, entry in enumerate(missing):
                pairs = slice(found.offsets[row], found.offsets[row + 1])
                self._known[entry] = (found.token_ids[pairs], found.relations[pairs])
        rows = [self._known[entry] for entry in entries]
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


class Simulator:
    """Turns examples into generator batches; what is simulated is a function of (seed, epoch, index).

    max_positions: the longest sequence that the model takes; splitting makes sentences longer.
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
    ) -> None:
        self._max_positions = max_positions
        self._objective = objective
        self._side = side
        self._seed = seed
        self._size = len(tokenizer)
        self._padding = padding
        self._resegment = Resegmenter(tokenizer, settings)
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
            own_tokens(results, new),
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


def number_new(results: Sequence[Resegmentation], size: int) -> tuple[dict[Entry, int], list[list[int]]]:
    """The new tokens of a batch, numbered from 0, and each sentence's tokens, in which new ones count from `size`."""
    new: dict[Entry, int] = {}
    for result in results:
        for entry in result.new:
            new.setdefault(entry, len(new))
    return new, [[t if t < size else size + new[r.new[t - size]] for t in r.tokens] for r in results]


def own_tokens(results: Sequence[Resegmentation], new: dict[Entry, int]) -> Tensor:
    """[B, K]: which of the batch's new tokens are a sentence's own."""
    own = np.zeros((len(results), len(new)), dtype=bool)
    for row, result in enumerate(results):
        own[row, [new[entry] for entry in result.new]] = True
    return torch.from_numpy(own)


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
