"""Sentences of documents as inputs of pretraining: packed into blocks, or as two segments with and without relation.

The forms are those that Liu et al. compare (RoBERTa, 2019, section 4.2). Everything here counts tokens of text: special
tokens around and between texts are the caller's, except the separator between documents that share a block.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from subgraft.base.errors import UserError
from subgraft.data.text.documents import DocumentText, document_blocks
from subgraft.data.text.encoded import Sequences, blocks
from subgraft.data.text.truncation import longest_first


class PackedSentences:
    """Texts of consecutive sentences.

    Args:
        sentences: All sentences, none longer than a block.
        bounds: int64 [n + 1], the first sentence of each block, and the end of the last.
        ends: The sentences after which a document ends within its block, ascending.
        separator: The token that stands there.

    Attributes:
        lengths: The tokens of each block, separators included [n].
    """

    def __init__(self, sentences: Sequences, bounds: np.ndarray, ends: np.ndarray, separator: int) -> None:
        self._sentences, self._bounds, self._separator = sentences, bounds, separator
        self._ends = frozenset(ends.tolist())
        tokens = np.concatenate([[0], np.cumsum(sentences.lengths, dtype=np.int64)])
        marks = np.searchsorted(ends, bounds)
        self.lengths: np.ndarray = np.diff(tokens[bounds]) + np.diff(marks)

    def __len__(self) -> int:
        return len(self.lengths)

    def first_blocks(self, starts: np.ndarray) -> np.ndarray:
        """The block that each of these sentences begins [n], or the number of blocks for the end of the last one."""
        return np.searchsorted(self._bounds, starts)

    def __getitem__(self, index: int) -> list[int]:
        """The tokens of a block."""
        tokens: list[int] = []
        for sentence in range(*self._bounds[index : index + 2].tolist()):
            tokens += self._sentences[sentence]
            tokens += [self._separator] if sentence in self._ends else []
        return tokens


def doc_sentences(sentences: Sequences, text: DocumentText, room: int) -> PackedSentences:
    """DOC-SENTENCES: each block has as many consecutive sentences of one document as fit into `room` tokens."""
    truncated = sentences.truncate(room)
    return PackedSentences(
        truncated, document_blocks(truncated.lengths, text.starts, room), np.zeros(0, dtype=np.int64), -1
    )


def full_sentences(sentences: Sequences, text: DocumentText, room: int, separator: int) -> PackedSentences:
    """FULL-SENTENCES: blocks cross the ends of documents, where they have an additional separator."""
    truncated = sentences.truncate(room)
    last_sentences = text.starts[1:] - 1
    costs = truncated.lengths.astype(np.int64)
    costs[last_sentences] = np.minimum(costs[last_sentences] + 1, room)
    bounds = blocks(costs, room)
    # The end of the input follows the last sentence of a block.
    return PackedSentences(truncated, bounds, np.setdiff1d(last_sentences, bounds[1:] - 1), separator)


class SegmentPair(NamedTuple):
    """Two segments; `follows` is whether the second one follows the first in its document (BERT's IsNext)."""

    first: list[int]
    second: list[int]
    follows: bool


@dataclass(frozen=True)
class PairSettings:
    """The sizes of pairs.

    Attributes:
        room: The maximum number of tokens of both segments together.
        short: The share of blocks that are only filled up to a random number of tokens.
        sentences: The maximum number of sentences of a block; None for as many as fit.
    """

    room: int
    short: float = 0.0
    sentences: int | None = None


class SegmentPairs:
    """Pairs of segments (Devlin et al. 2019, section 3.1, task 2 and appendix A.2).

    A block has as many consecutive sentences of one document as fit, and at least two: a last sentence that would be
    alone is preceded by the one before it. The block is split into two segments between two uniformly drawn sentences.
    In half of the pairs the second segment is replaced by the same number of sentences of another document, from a
    uniform position in a uniformly drawn document. If they do not fit, the last ones are dropped; if not even one fits,
    the first sentences of the first segment are dropped. (BERT fills the second segment up to the room, so that near
    the end of a document the length reveals which segments follow.) If two single sentences do not fit, the longer one
    loses tokens at a random end, as in BERT. Documents of one sentence only serve as the other document.

    Args:
        sentences: The sentences of the text.
        text: The text, with the positions of its documents.
        settings: The size of the blocks.
        seed: The seed of the short blocks; everything else depends on the generator that `pair` receives.

    Attributes:
        lengths: The tokens of each pair whose second segment follows [n]; the other pairs have as many on average.

    Raises:
        UserError: There is only one document, or none has two sentences.
    """

    def __init__(self, sentences: Sequences, text: DocumentText, settings: PairSettings, seed: int) -> None:
        self._sentences, self._starts, self._documents = sentences.truncate(settings.room), text.starts, text.documents
        self._room = settings.room
        if len(np.unique(text.documents)) < 2:
            raise UserError(
                f"the text in '{text.language}' has one document, and pairs need sentences of another one",
                hint="Give a corpus of several documents, or an input without pairs: `input: doc-sentences`, "
                "`full-sentences` or `sentences`. Of dev, pretrain.dev_sentences sentences are read: raise it if they "
                "end in the first document.",
            )
        bounds = list(_pair_blocks(self._sentences.lengths, text.starts, settings, np.random.default_rng(seed)))
        if not bounds:
            raise UserError(
                f"no document in '{text.language}' has two sentences, of which one follows the other",
                hint="`cleaning: {deduplicate: false}` leaves documents whole, or write `input: sentences`.",
            )
        self._blocks = np.array(bounds, dtype=np.int64)
        self._total = np.concatenate([[0], np.cumsum(self._sentences.lengths, dtype=np.int64)])
        self.lengths: np.ndarray = np.minimum(np.diff(self._total[self._blocks])[:, 0], self._room)

    def __len__(self) -> int:
        return len(self._blocks)

    def pair(self, index: int, rng: np.random.Generator) -> SegmentPair:
        start, end = self._blocks[index].tolist()
        middle = start + 1 + int(rng.integers(end - start - 1))
        follows = bool(rng.random() < 0.5)
        second = (middle, end)
        if not follows:
            second = self._sentences_of_another_document(start, end - middle, rng)
            first_of_second = (second[0], second[0] + 1)
            while middle - start > 1 and not self._fit((start, middle), first_of_second):
                start += 1
            while second[1] - second[0] > 1 and not self._fit((start, middle), second):
                second = (second[0], second[1] - 1)
        return SegmentPair(
            *_truncated(self._tokens_of(start, middle), self._tokens_of(*second), self._room, rng), follows
        )

    def _sentences_of_another_document(self, sentence: int, count: int, rng: np.random.Generator) -> tuple[int, int]:
        """At most `count` sentences [start, end) of a document other than that of `sentence`."""
        own = self._documents[np.searchsorted(self._starts, sentence, side="right") - 1]
        other = int(rng.integers(len(self._documents)))
        while self._documents[other] == own:
            other = int(rng.integers(len(self._documents)))
        start, end = self._starts[other : other + 2].tolist()
        first = start + int(rng.integers(max(1, end - start - count + 1)))
        return first, min(first + count, end)

    def _fit(self, *segments: tuple[int, int]) -> bool:
        return sum(int(self._total[end] - self._total[start]) for start, end in segments) <= self._room

    def _tokens_of(self, start: int, end: int) -> list[int]:
        return [token for sentence in range(start, end) for token in self._sentences[sentence]]


def _pair_blocks(
    costs: np.ndarray, starts: np.ndarray, settings: PairSettings, rng: np.random.Generator
) -> Iterator[tuple[int, int]]:
    """The sentences [begin, end) of each block."""
    total = np.concatenate([[0], np.cumsum(costs, dtype=np.int64)])
    max_sentences = settings.sentences or len(costs)
    for first, end in zip(starts[:-1].tolist(), starts[1:].tolist(), strict=True):
        start = first
        while end - first > 1 and start < end:
            start = min(start, end - 2)
            room = settings.room
            if settings.short and rng.random() < settings.short:
                room = int(rng.integers(2, max(3, room + 1)))
            fitting = int(np.searchsorted(total, total[start] + room, side="right")) - 1 - start
            stop = min(start + max(2, min(fitting, max_sentences)), end)
            yield start, stop
            start = stop


def _truncated(first: list[int], second: list[int], room: int, rng: np.random.Generator) -> tuple[list[int], list[int]]:
    """Truncate both to fit into the room; each dropped token is the first or the last of its segment."""
    lengths = longest_first(len(first), len(second), room)
    if lengths == (len(first), len(second)):
        return first, second
    return _without(first, lengths[0], rng), _without(second, lengths[1], rng)


def _without(tokens: Sequence[int], length: int, rng: np.random.Generator) -> list[int]:
    front = int(rng.binomial(len(tokens) - length, 0.5))
    return list(tokens[front : front + length])
