"""Detect dev and test text in training text: equal lines up to typography, and near copies.

Lines count as equal if they differ only in Unicode form, case, white space, invisible characters, the form of quotation
marks, or final punctuation, because many vocabularies map such lines to the same ids. A pair is held out if either side
equals a dev or test line of any side, as in OPUS-100 (Zhang et al. 2020, *Improving Massively Multilingual Neural
Machine Translation and Zero-Shot Translation*, section 3).

A near copy is a dev or test segment with a side half of whose 8-grams of words occur in the training text. Near copies
are only counted (Chowdhery et al. 2022, *PaLM*, section 8, require 70 %).
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from hashlib import sha256
from itertools import chain, combinations, islice, repeat

import numpy as np

from subgraft.data.text.corpus import Corpus
from subgraft.data.text.fields import Sides, texts

NGRAM, NEAR_COPY_SHARE = 8, 0.5
# A side of a text with fewer distinct lines than this share of its segments contains classes or short answers, which do
# not identify a segment.
MIN_DISTINCT_SHARE = 0.5

_APOSTROPHES, _QUOTATION_MARKS = "’‘‛ʼʹ′`´＇｀", "“”„‟«»″＂"
# Controls, formatting characters and variation selectors, which are invisible.
_INVISIBLE = (
    "\x00-\x08\x0e-\x1b\x7f-\x84\x86-\x9f\u00ad\u061c\u180e\u200b-\u200f\u202a-\u202e\u2060-\u206f\ufe00-\ufe0f\ufeff"
)
_UNUSUAL = re.compile(f"[{_INVISIBLE}{_APOSTROPHES}{_QUOTATION_MARKS}]")
_CANONICAL = dict.fromkeys(_APOSTROPHES, "'") | dict.fromkeys(_QUOTATION_MARKS, '"')
# Scripts without white space between words: there, each character counts as a word.
_UNSPACED = (
    "\u0e00-\u0fff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u31f0-\u31ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff"
    "\U00020000-\U0003ffff"
)
_PUNCTUATION = "!-/:-@\\[-`{-~\u00a1\u00bf\u2010-\u205e\u3001-\u303f"
_WORD = re.compile(rf"[{_UNSPACED}]|[^\s{_PUNCTUATION}{_UNSPACED}]+")

_LINES_AT_ONCE = 4096
_FACTORS = np.array([pow(0x9E3779B97F4A7C15, at + 1, 1 << 64) for at in range(NGRAM)], dtype=np.uint64)


def fold(text: str) -> str:
    """A line in a canonical form, apart from final punctuation."""
    text = _UNUSUAL.sub(lambda match: _CANONICAL.get(match[0], ""), text)
    if not text.isascii():
        text = unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", text).casefold())
    return " ".join(text.casefold().split())


def comparison_key(line: str) -> str:
    """The comparison key of a folded line: the line without final punctuation."""
    end = len(line)
    while end and (line[end - 1] == " " or unicodedata.category(line[end - 1]).startswith("P")):
        end -= 1
    return line[:end] or line


class HeldOut:
    """Dev and test segments, and their near copies in the training text.

    Args:
        texts: The segments of each text. In several texts one side may be the same, such as the English of translations
            into many languages, so that whether a side identifies its segments is judged in each text.
        compare_whole: Whether a training segment is held out only if all of its sides equal those of one segment. This
            is for labelled examples, such as a question with its passage, whose sides may each occur in several
            examples.
    """

    def __init__(self, *texts: Iterable[Sides], compare_whole: bool = False) -> None:
        self._compare_whole = compare_whole
        self._texts: dict[int, list[tuple[str, ...]]] = {}
        for number, segments in enumerate(texts):
            for sides in segments:
                self.add(sides, number)

    def add(self, sides: Sides, text: int = 0) -> None:
        """Add the sides of a segment of a text; all segments must be added before any comparison."""
        self._texts.setdefault(text, []).append(tuple(map(fold, sides)))

    def __len__(self) -> int:
        return sum(map(len, self._texts.values()))

    def has(self, sides: Sequence[str]) -> bool:
        """Whether a training segment, passed as its folded sides, equals a held-out one."""
        keys = tuple(map(comparison_key, sides))
        if len(keys) == 1:
            return keys[0] in self._lines
        return keys in self._whole or not self._identifying.isdisjoint(keys)

    def note(self, segments: Iterable[Sequence[str]]) -> None:
        """Record folded training segments for `near_copies`."""
        lines = (line for sides in segments for line in sides)
        while chunk := list(islice(lines, _LINES_AT_ONCE)):
            self._ngrams.note(chunk)

    @property
    def near_copies(self) -> int:
        """The number of held-out segments with a near copy in the training text."""
        return len(self.nearly_copied)

    @property
    def nearly_copied(self) -> frozenset[int]:
        """The held-out segments with a near copy in the training text, by the order in which they were added."""
        return frozenset(self._ngrams.nearly_copied().tolist())

    @cached_property
    def _keys(self) -> list[set[tuple[str, ...]]]:
        """The distinct segments of each text."""
        return [{tuple(map(comparison_key, sides)) for sides in text} for text in self._texts.values()]

    @cached_property
    def _lines(self) -> frozenset[str]:
        return frozenset(chain.from_iterable(chain.from_iterable(self._keys))) - {""}

    @cached_property
    def _identifying_sides(self) -> list[list[set[str]]]:
        """For each text, the lines of each side whose lines identify their segments."""
        if self._compare_whole:
            return [[] for _ in self._keys]
        sides = [[set(lines) - {""} for lines in zip(*segments, strict=True)] for segments in self._keys]
        return [
            [lines for lines in of_text if len(lines) >= MIN_DISTINCT_SHARE * len(segments)]
            for of_text, segments in zip(sides, self._keys, strict=True)
        ]

    @cached_property
    def _identifying(self) -> frozenset[str]:
        return frozenset[str]().union(*chain.from_iterable(self._identifying_sides))

    @cached_property
    def _whole(self) -> frozenset[tuple[str, ...]]:
        """The segments of texts in which no side identifies a segment."""
        texts = zip(self._keys, self._identifying_sides, strict=True)
        return frozenset[tuple[str, ...]]().union(*(segments for segments, sides in texts if not sides))

    @cached_property
    def _ngrams(self) -> _NGrams:
        return _NGrams(list(chain.from_iterable(self._texts.values())))


class _NGrams:
    """All word n-grams of length RUN of some segments, and which of them occur in training text."""

    def __init__(self, segments: Sequence[Sequence[str]]) -> None:
        lines = [(index, line) for index, sides in enumerate(segments) for line in sides]
        words = [_WORD.findall(line) for _, line in lines]
        self._ids = {word: index for index, word in enumerate(dict.fromkeys(chain.from_iterable(words)), 1)}
        hashes, positions = self._hashes_of(words)
        self._hashes, self._ngram = np.unique(hashes, return_inverse=True)
        self._line = np.repeat(np.arange(len(words)), [len(each) + 1 for each in words])[positions]
        self._segment = np.array([index for index, _ in lines], dtype=np.int64)
        self._matched = np.zeros(len(self._hashes), dtype=bool)

    def note(self, lines: Sequence[str]) -> None:
        if not len(self._hashes):
            return
        hashes, _ = self._hashes_of(_WORD.findall(line) for line in lines if len(line) >= NGRAM)
        positions = np.minimum(np.searchsorted(self._hashes, hashes), len(self._hashes) - 1)
        self._matched[positions[self._hashes[positions] == hashes]] = True

    def nearly_copied(self) -> np.ndarray:
        """The segments half of whose n-grams on a side occur in training text, int64 [n]."""
        of_line = np.bincount(self._line, minlength=len(self._segment))
        matched = np.bincount(self._line, weights=self._matched[self._ngram], minlength=len(self._segment))
        segments: np.ndarray = np.unique(self._segment[(of_line > 0) & (matched >= NEAR_COPY_SHARE * of_line)])
        return segments

    def _hashes_of(self, lines: Iterable[Sequence[str]]) -> tuple[np.ndarray, np.ndarray]:
        """Hashes [n] (uint64) and start positions [n] of all runs of known words; lines are separated by a 0."""
        numbers: list[int] = []
        for words in lines:
            numbers.extend(map(self._ids.get, words, repeat(0)))
            numbers.append(0)
        ids = np.array(numbers, dtype=np.uint64)
        known = np.concatenate([[0], np.cumsum(ids != 0)])
        positions = np.flatnonzero(known[NGRAM:] - known[:-NGRAM] == NGRAM)
        mixed, hashes = _mix_bits(ids), np.zeros(len(positions), dtype=np.uint64)
        for index, factor in enumerate(_FACTORS):
            hashes += mixed[positions + index] * factor
        return hashes, positions


def _mix_bits(numbers: np.ndarray) -> np.ndarray:
    """The finaliser of SplitMix64 (Steele et al. 2014) on uint64 numbers [n]."""
    mixed = (numbers ^ (numbers >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    mixed = (mixed ^ (mixed >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    result: np.ndarray = mixed ^ (mixed >> np.uint64(31))
    return result


@dataclass(frozen=True)
class SeenPairs:
    """How many pairs of a test set occur in training text; lines are equal up to typography (see `held_out`).

    Attributes:
        sentences: Pairs of the test set.
        pairs: Those that are also a pair of a training corpus, in either direction.
        sources, targets: Those whose source, or target, is a line of a training corpus, alone or in another pair.
    """

    sentences: int
    pairs: int
    sources: int
    targets: int

    @classmethod
    def of(cls, test: Iterable[tuple[str, str]], training: Iterable[Corpus]) -> SeenPairs:
        """Compare test pairs with the training splits of corpora, which are read once."""
        test_digests = [(digest(source), digest(target)) for source, target in test]
        lines, pairs = {line for pair in test_digests for line in pair}, {frozenset(pair) for pair in test_digests}
        seen, seen_pairs = set[bytes](), set[frozenset[bytes]]()
        for corpus in training:
            for sides in _digests(corpus):
                in_test = [line for line in sides if line in lines]
                seen.update(in_test)
                seen_pairs.update(pair for pair in map(frozenset, combinations(in_test, 2)) if pair in pairs)
        return cls(
            len(test_digests),
            sum(frozenset(pair) in seen_pairs for pair in test_digests),
            sum(source in seen for source, _ in test_digests),
            sum(target in seen for _, target in test_digests),
        )


def digest(line: str) -> bytes:
    """SHA-256 of the form of a line by which held-out lines are compared."""
    return sha256(comparison_key(fold(line)).encode()).digest()


def _digests(corpus: Corpus) -> Iterator[tuple[bytes, ...]]:
    """The digests of each training segment's parallel lines; if texts are not parallel, of each line separately."""
    names = [text.name for text in texts(corpus.fields)]
    groups = [names] if corpus.aligned else [[name] for name in names]
    for group in groups if "train" in corpus.splits else ():
        for sides in zip(*(corpus.lines("train", name) for name in group), strict=True):
            yield tuple(map(digest, sides))
