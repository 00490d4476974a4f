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

RUN, SHARE = 8, 0.5
# A side whose distinct lines are fewer than this share of the segments has classes, short answers or the like, which do
# not identify segments.
DIFFERENT = 0.5

_APOSTROPHES, _QUOTATION_MARKS = "’‘‛ʼʹ′`´＇｀", "“”„‟«»″＂"
# Controls, formatting characters and variation selectors, which are invisible.
_INVISIBLE = (
    "\x00-\x08\x0e-\x1b\x7f-\x84\x86-\x9f\u00ad\u061c\u180e\u200b-\u200f\u202a-\u202e\u2060-\u206f\ufe00-\ufe0f\ufeff"
)
_UNUSUAL = re.compile(f"[{_INVISIBLE}{_APOSTROPHES}{_QUOTATION_MARKS}]")
_ONE_FORM = dict.fromkeys(_APOSTROPHES, "'") | dict.fromkeys(_QUOTATION_MARKS, '"')
# Scripts without white space between words: there, each character counts as a word.
_UNSPACED = (
    "\u0e00-\u0fff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u31f0-\u31ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff"
    "\U00020000-\U0003ffff"
)
_PUNCTUATION = "!-/:-@\\[-`{-~\u00a1\u00bf\u2010-\u205e\u3001-\u303f"
_WORD = re.compile(rf"[{_UNSPACED}]|[^\s{_PUNCTUATION}{_UNSPACED}]+")

_LINES_AT_ONCE = 4096
_FACTORS = np.array([pow(0x9E3779B97F4A7C15, at + 1, 1 << 64) for at in range(RUN)], dtype=np.uint64)


def folded(text: str) -> str:
    """A line in a canonical form, apart from final punctuation."""
    text = _UNUSUAL.sub(_usual, text)
    if not text.isascii():
        text = unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", text).casefold())
    return " ".join(text.casefold().split())


def _usual(match: re.Match[str]) -> str:
    return _ONE_FORM.get(match[0], "")


def key(line: str) -> str:
    """The comparison key of a folded line: the line without final punctuation."""
    end = len(line)
    while end and (line[end - 1] == " " or unicodedata.category(line[end - 1]).startswith("P")):
        end -= 1
    return line[:end] or line


class HeldOut:
    """Dev and test segments, and their near copies in the training text.

    Args:
        segments: The segments.
        whole: Whether a training segment is held out only if all of its sides are those of one of these: a labelled
            example is a pair, a question with its passage, a query with its candidate, each of whose sides may be part
            of several examples.
    """

    def __init__(self, segments: Iterable[Sides] = (), *, whole: bool = False) -> None:
        self._compares_whole = whole
        self._segments: list[tuple[str, ...]] = []
        for sides in segments:
            self.add(sides)

    def add(self, sides: Sides) -> None:
        """Add the texts of a segment; all segments must be added before any comparison."""
        self._segments.append(tuple(map(folded, sides)))

    def __len__(self) -> int:
        return len(self._segments)

    def has(self, sides: Sequence[str]) -> bool:
        """Whether a training segment, passed as its folded sides, equals one of these."""
        keys = tuple(map(key, sides))
        if len(keys) == 1:
            return keys[0] in self._lines
        if self._compares_whole or not self._identifying:
            return keys in self._whole
        return not self._identifying.isdisjoint(keys)

    def note(self, segments: Iterable[Sequence[str]]) -> None:
        """Record folded training segments for `near_copies`."""
        lines = (line for sides in segments for line in sides)
        while some := list(islice(lines, _LINES_AT_ONCE)):
            self._runs.note(some)

    @property
    def near_copies(self) -> int:
        """The number of held-out segments with a near copy in the training text."""
        return self._runs.near_copies()

    @cached_property
    def _whole(self) -> frozenset[tuple[str, ...]]:
        return frozenset(tuple(map(key, sides)) for sides in self._segments)

    @cached_property
    def _by_side(self) -> list[set[str]]:
        return [{key(line) for line in lines} - {""} for lines in zip(*self._segments, strict=True)]

    @cached_property
    def _lines(self) -> frozenset[str]:
        return frozenset[str]().union(*self._by_side)

    @cached_property
    def _identifying(self) -> frozenset[str]:
        """Lines that identify their segment."""
        return frozenset[str]().union(*(lines for lines in self._by_side if len(lines) >= DIFFERENT * len(self._whole)))

    @cached_property
    def _runs(self) -> _Runs:
        return _Runs(self._segments)


class _Runs:
    """All word n-grams of length RUN of some segments, and which of them occur in training text."""

    def __init__(self, segments: Sequence[Sequence[str]]) -> None:
        lines = [(at, line) for at, sides in enumerate(segments) for line in sides]
        words = [_WORD.findall(line) for _, line in lines]
        self._ids = {word: at for at, word in enumerate(dict.fromkeys(chain.from_iterable(words)), 1)}
        hashes, places = self._hashes_of(words)
        self._hashes, self._run = np.unique(hashes, return_inverse=True)
        self._line = np.repeat(np.arange(len(words)), [len(each) + 1 for each in words])[places]
        self._segment = np.array([at for at, _ in lines], dtype=np.int64)
        self._matched = np.zeros(len(self._hashes), dtype=bool)

    def note(self, lines: Sequence[str]) -> None:
        if not len(self._hashes):
            return
        hashes, _ = self._hashes_of(_WORD.findall(line) for line in lines if len(line) >= RUN)
        places = np.minimum(np.searchsorted(self._hashes, hashes), len(self._hashes) - 1)
        self._matched[places[self._hashes[places] == hashes]] = True

    def near_copies(self) -> int:
        of_line = np.bincount(self._line, minlength=len(self._segment))
        matched = np.bincount(self._line, weights=self._matched[self._run], minlength=len(self._segment))
        return len(np.unique(self._segment[(of_line > 0) & (matched >= SHARE * of_line)]))

    def _hashes_of(self, lines: Iterable[Sequence[str]]) -> tuple[np.ndarray, np.ndarray]:
        """Hashes [n] (uint64) and start positions [n] of all runs of known words; lines are separated by a 0."""
        numbers: list[int] = []
        for words in lines:
            numbers.extend(map(self._ids.get, words, repeat(0)))
            numbers.append(0)
        ids = np.array(numbers, dtype=np.uint64)
        known = np.concatenate([[0], np.cumsum(ids != 0)])
        places = np.flatnonzero(known[RUN:] - known[:-RUN] == RUN)
        mixed, hashes = _mixed(ids), np.zeros(len(places), dtype=np.uint64)
        for at, factor in enumerate(_FACTORS):
            hashes += mixed[places + at] * factor
        return hashes, places


def _mixed(numbers: np.ndarray) -> np.ndarray:
    """The finaliser of SplitMix64 (Steele et al. 2014) on uint64 numbers [n]."""
    mixed = (numbers ^ (numbers >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    mixed = (mixed ^ (mixed >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    spread: np.ndarray = mixed ^ (mixed >> np.uint64(31))
    return spread


@dataclass(frozen=True)
class SeenPairs:
    """How many pairs of a test set occur in training text; lines are equal up to typography (see `held_out`).

    Attributes:
        sentences: Pairs of the test set.
        pairs: Those whose sides are a pair of a training corpus too, in either direction.
        sources, targets: Those whose source, or target, is a line of it, alone or in another pair.
    """

    sentences: int
    pairs: int
    sources: int
    targets: int

    @classmethod
    def of(cls, test: Iterable[tuple[str, str]], training: Iterable[Corpus]) -> SeenPairs:
        """Compare test pairs with the training splits of corpora, which are read once."""
        wanted = [(digest(source), digest(target)) for source, target in test]
        lines, pairs = {each for pair in wanted for each in pair}, {frozenset(pair) for pair in wanted}
        seen, seen_pairs = set[bytes](), set[frozenset[bytes]]()
        for corpus in training:
            for sides in _digests(corpus):
                held = [each for each in sides if each in lines]
                seen.update(held)
                seen_pairs.update(pair for pair in map(frozenset, combinations(held, 2)) if pair in pairs)
        return cls(
            len(wanted),
            sum(frozenset(pair) in seen_pairs for pair in wanted),
            sum(source in seen for source, _ in wanted),
            sum(target in seen for _, target in wanted),
        )


def digest(line: str) -> bytes:
    """SHA-256 of a line in the form by which held-out lines are compared."""
    return sha256(key(folded(line)).encode()).digest()


def _digests(corpus: Corpus) -> Iterator[tuple[bytes, ...]]:
    """The digests of the parallel lines of each training segment; of each line where texts are not parallel."""
    names = [text.name for text in texts(corpus.fields)]
    together = [names] if corpus.aligned else [[name] for name in names]
    for group in together if "train" in corpus.splits else ():
        for sides in zip(*(corpus.lines("train", name) for name in group), strict=True):
            yield tuple(map(digest, sides))
