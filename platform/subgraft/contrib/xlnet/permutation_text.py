"""XLNet's inputs: blocks of a text, in one or two segments, and the targets in them (Yang et al., NeurIPS 2019).

Blocks of a document are consecutive, so a model can remember the previous one. Their bounds are a function of the seed.
Text of other documents, directions and targets are a function of (seed, epoch, index).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from subgraft.base.errors import UserError
from subgraft.contrib.xlnet.objective import PermutationSettings
from subgraft.data.text.documents import document_blocks
from subgraft.data.text.encoded import Sequences, encode
from subgraft.subwords.vocabulary.tokenizer import Tokenizer
from subgraft.training.objectives.compute.interface import ObjectiveInputs

# The longest span of targets (section 3.1).
LONGEST_SPAN = 5


class Segments(NamedTuple):
    """The text of a block. second: None for one segment. follows: whether it is the text after the first one."""

    first: list[int]
    second: list[int] | None = None
    follows: bool = True

    def reversed(self) -> Segments:
        """The same text read backwards, from its last token on."""
        if self.second is None or not self.follows:
            other = None if self.second is None else self.second[::-1]
            return Segments(self.first[::-1], other, self.follows)
        return Segments(self.second[::-1], self.first[::-1])


def draw_spans(size: int, factor: int, rng: np.random.Generator) -> list[tuple[int, int]]:
    """Spans of targets in a text of `size` tokens, as (start, length) (section 3.1).

    A length L is sampled from 1 to LONGEST_SPAN, and a start of the span within the next `factor` x L tokens. At the
    end of the text both are shortened proportionally.
    """
    spans, position = list[tuple[int, int]](), 0
    while position < size:
        length = int(rng.integers(1, LONGEST_SPAN + 1))
        context = min(factor * length, size - position)
        length = min(length, context // factor)
        if length:
            spans.append((position + int(rng.integers(context - length + 1)), length))
        position += context
    return spans


def draw_targets(size: int, settings: PermutationSettings, rng: np.random.Generator) -> np.ndarray:
    """The indices of the tokens to predict in a text, ascending: about one in `partial_prediction`, at least one."""
    if settings.spans and size >= settings.partial_prediction:
        spans = draw_spans(size, settings.partial_prediction, rng)
        return np.concatenate([np.arange(start, start + length) for start, length in spans])
    return np.sort(rng.permutation(size)[: max(1, round(size / settings.partial_prediction))])


@dataclass(frozen=True)
class _Bounds:
    """Blocks as ranges of sentences.

    Attributes:
        starts: The first block of each run, and the end of the last [R + 1].
        begins, ends: The first sentence of each block's own text, and the sentence after the last [n].
        cuts: The first sentence of its second segment [n].
        foreign: Whether the second segment comes from another document [n].
    """

    starts: np.ndarray
    begins: np.ndarray
    cuts: np.ndarray
    ends: np.ndarray
    foreign: np.ndarray


class SegmentBlocks:
    """The blocks of a text, each of at most `room` tokens without special ones.

    A run is a document, or a part of one between gaps that cleaning left.

    starts: the first block of each run, and the end of the last [R + 1].
    """

    def __init__(
        self, settings: PermutationSettings, request: ObjectiveInputs, tokenizer: Tokenizer, room: int
    ) -> None:
        self._settings, self._seed, self._room = settings, request.seed, room
        parts = list(_sentences_by_language(settings, request, tokenizer, room))
        self._sentences = _concatenate([part.sentences for part in parts])
        costs = self._sentences.lengths.astype(np.int64)
        self._runs = np.concatenate([[0], np.cumsum(np.concatenate([np.diff(part.starts) for part in parts]))])
        self._documents = np.concatenate([part.documents for part in parts])
        # Text of other documents is sampled from the same language.
        runs = [len(part.documents) for part in parts]
        self._languages = np.repeat(np.arange(len(parts)), runs)
        self._first_of_language = np.concatenate([[0], np.cumsum(runs)])
        if settings.input == "segment-pair":
            if any(len(np.unique(part.documents)) < 2 for part in parts):
                raise UserError(
                    "a segment of another document needs two documents of each language, and there is one",
                    where="upstream.objectives: permutation",
                    hint="Write input: doc-sentences, or give more documents.",
                )
            self._bounds = _pair_segments(costs, self._runs, room, request.seed)
        else:
            self._bounds = _pack_segments(costs, self._runs, room)
        self.starts = self._bounds.starts
        self._tokens = np.concatenate([[0], np.cumsum(costs)])

    def __len__(self) -> int:
        return len(self._bounds.begins)

    @property
    def sizes(self) -> np.ndarray:
        """The tokens of each block's own text [n]."""
        sizes: np.ndarray = self._tokens[self._bounds.ends] - self._tokens[self._bounds.begins]
        return sizes

    @property
    def costs(self) -> np.ndarray:
        """The maximum number of tokens that each block reads, without special ones [n]."""
        return np.where(self._bounds.foreign, self._room, self.sizes)

    def backwards(self, epoch: int) -> np.ndarray:
        """Which runs are read backwards in an epoch [R]."""
        return _backwards(len(self.starts) - 1, self._seed, epoch, self._settings.bidirectional)

    def is_backwards(self, index: int, epoch: int) -> bool:
        return bool(self.backwards(epoch)[self._run(index)])

    def text(self, index: int) -> list[int]:
        """A block's own text, forwards."""
        return self._between(self._bounds.begins[index], self._bounds.ends[index])

    def segments(self, index: int, rng: np.random.Generator) -> Segments:
        """The text of a block, forwards."""
        begin, cut, end = (each[index] for each in (self._bounds.begins, self._bounds.cuts, self._bounds.ends))
        first = self._between(begin, cut)
        if self._bounds.foreign[index]:
            return Segments(
                first, self._sample_other_text(self._run(index), self._room - len(first), rng), follows=False
            )
        return Segments(first, self._between(cut, end) if cut < end else None)

    def _run(self, index: int) -> int:
        return int(np.searchsorted(self.starts, index, side="right")) - 1

    def _between(self, begin: int, end: int) -> list[int]:
        return [token for place in range(int(begin), int(end)) for token in self._sentences[place]]

    def _sample_other_text(self, run: int, room: int, rng: np.random.Generator) -> list[int]:
        """At most `room` tokens of another document, from a random sentence on."""
        bounds, other = self._first_of_language[self._languages[run] :][:2].tolist(), run
        while self._documents[other] == self._documents[run]:
            other = int(rng.integers(*bounds))
        sentence, stop = int(rng.integers(*self._runs[other : other + 2])), int(self._runs[other + 1])
        tokens = list[int]()
        while sentence < stop and len(tokens) < room:
            tokens += self._sentences[sentence]
            sentence += 1
        return tokens[:room]


class _Part(NamedTuple):
    """The sentences of a language. starts: of its runs [R + 1].  documents: the number of each run's document [R]."""

    sentences: Sequences
    starts: np.ndarray
    documents: np.ndarray


def _sentences_by_language(
    settings: PermutationSettings, request: ObjectiveInputs, tokenizer: Tokenizer, room: int
) -> Iterator[_Part]:
    """The text of each language; without documents, each line is one."""
    # Neither of two segments may take all tokens of a block.
    longest = room // 2 if settings.input == "segment-pair" else room
    if settings.input == "sentences":
        texts = [(lines, np.arange(len(lines) + 1), np.arange(len(lines))) for _, lines in request.texts()]
    else:
        texts = [(text.lines, text.starts, text.documents) for text in request.documents()]
    for lines, starts, documents in texts:
        yield _Part(encode(lines, tokenizer).sequences.truncate(longest), starts, documents)


def _concatenate(parts: Sequence[Sequences]) -> Sequences:
    """The sequences of all parts, one after another."""
    if len(parts) == 1:
        return parts[0]
    before = np.cumsum([0, *(len(part.flat) for part in parts[:-1])])
    flat = np.concatenate([part.flat for part in parts])
    starts, ends = (
        np.concatenate([getattr(part, name) + offset for part, offset in zip(parts, before, strict=True)])
        for name in ("starts", "ends")
    )
    return Sequences(flat, starts, ends, parts[0].max_length)


def _pack_segments(costs: np.ndarray, runs: np.ndarray, room: int) -> _Bounds:
    """Blocks of one segment, each of as many sentences as fit."""
    bounds = document_blocks(costs, runs, room)
    begins, ends = bounds[:-1], bounds[1:]
    return _Bounds(np.searchsorted(bounds, runs), begins, ends, ends, np.zeros(len(begins), dtype=np.bool_))


def _pair_segments(costs: np.ndarray, runs: np.ndarray, room: int, seed: int) -> _Bounds:
    """Blocks of two segments, cut at a random sentence (as in BERT's data).

    In half of the blocks, and in those of one sentence, text of another document replaces the second segment. The
    replaced sentences then start the next block.
    """
    rng, total = np.random.default_rng([seed, len(runs)]), np.concatenate([[0], np.cumsum(costs)])
    rows, starts = list[tuple[int, int, int, bool]](), [0]
    for begin, end in zip(runs[:-1].tolist(), runs[1:].tolist(), strict=True):
        start = begin
        while start < end:
            last_fitting = int(np.searchsorted(total, total[start] + room, side="right")) - 1
            stop = min(max(last_fitting, start + 1), end)
            foreign = stop == start + 1 or bool(rng.random() < 0.5)
            cut = start + 1 if stop == start + 1 else int(rng.integers(start + 1, stop))
            rows.append((start, cut, cut if foreign else stop, foreign))
            start = rows[-1][2]
        starts.append(len(rows))
    begins, cuts, ends, foreign_rows = (np.array(column) for column in zip(*rows, strict=True))
    return _Bounds(np.array(starts), begins, cuts, ends, foreign_rows.astype(np.bool_))


@lru_cache(maxsize=4)
def _backwards(runs: int, seed: int, epoch: int, bidirectional: bool) -> np.ndarray:
    if not bidirectional:
        return np.zeros(runs, dtype=np.bool_)
    is_backwards: np.ndarray = np.random.default_rng([seed, epoch, runs]).random(runs) < 0.5
    return is_backwards
