"""Check by character trigrams whether a text is in the language of one side of a task's pairs."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import NamedTuple

# Measured with pairs of everyday sentences, laws and documentation in English and French: text of the same language has
# at least 0.46 of the advantage of the dev split, in every domain. Nearly all of 46 other languages have less, or
# take more bits than the other side.
LEAST_ADVANTAGE = 0.4
# For a task with one language: text of another domain took at most 1.5 times as many bits.
MOST_BITS = 2.0
# The shortest line, in characters, that is shown as an example.
_SHOWN_FROM = 20


class Verdict(Enum):
    """The likely language of a text."""

    OWN = "own"
    OTHER = "other"
    NEITHER = "neither"


class Sample(NamedTuple):
    """Lines of one side of the pairs: training lines, and held-out lines for comparison."""

    train: Sequence[str]
    held_out: Sequence[str]


class Similarity(NamedTuple):
    """The likely language of a text, and the line that shows it best."""

    verdict: Verdict
    example: str


def similarity(lines: Sequence[str], own: Sample, other: Sample | None) -> Similarity:
    """The verdict on lines that should be like one side; `other` is None if both sides have the same language.

    A text is like a side whose characters predict it better than they predict the other side's held-out lines, and
    better than the other side's characters do, by a share of this advantage for held-out lines.
    """
    mine = TrigramModel.of(own.train)
    own_bits = mine.bits_per_character(lines)
    unlikely = max(_long_lines(lines), key=lambda line: mine.bits_per_character([line]))
    usual = mine.bits_per_character(own.held_out)
    if other is None:
        return Similarity(Verdict.NEITHER if own_bits > MOST_BITS * usual else Verdict.OWN, unlikely)
    theirs = TrigramModel.of(other.train)
    other_bits, usual_there = theirs.bits_per_character(lines), theirs.bits_per_character(other.held_out)
    foreign, foreign_there = mine.bits_per_character(other.held_out), theirs.bits_per_character(own.held_out)
    if own_bits < foreign and other_bits - own_bits >= LEAST_ADVANTAGE * (foreign_there - usual):
        return Similarity(Verdict.OWN, unlikely)
    if other_bits < foreign_there and own_bits - other_bits >= LEAST_ADVANTAGE * (foreign - usual_there):
        return Similarity(Verdict.OTHER, max(lines, key=lambda line: mine.bits(line) - theirs.bits(line)))
    return Similarity(Verdict.NEITHER, unlikely)


def _long_lines(lines: Sequence[str]) -> Sequence[str]:
    return [line for line in lines if len(line) >= _SHOWN_FROM] or lines


# The likelihood of a text under the trigrams of another, interpolated with shorter contexts (Jelinek 1980).
#
# Weights of the probabilities after two characters, one, and none; the rest is uniform over all characters.
_WEIGHTS = (0.6, 0.3, 0.09)
_CHARACTERS = 2**16
_BEGINNING = "\n"


@dataclass(frozen=True)
class TrigramModel:
    """Counts of character n-grams (n = 1 to 3) and of their contexts."""

    seen: Counter[str]
    contexts: Counter[str]

    @classmethod
    def of(cls, lines: Iterable[str]) -> TrigramModel:
        seen: Counter[str] = Counter()
        contexts: Counter[str] = Counter()
        for line in lines:
            text = _BEGINNING * 2 + line
            for end in range(2, len(text)):
                for begin in (end - 2, end - 1, end):
                    seen[text[begin : end + 1]] += 1
                    contexts[text[begin:end]] += 1
        return cls(seen, contexts)

    def bits(self, line: str) -> float:
        """The negative log2 likelihood of the line."""
        text = _BEGINNING * 2 + line
        return sum(self._bits(text[end - 2 : end + 1]) for end in range(2, len(text)))

    def bits_per_character(self, lines: Iterable[str]) -> float:
        """The mean over all characters of the lines; 0 if there are none."""
        bits, characters = 0.0, 0
        for line in lines:
            bits, characters = bits + self.bits(line), characters + len(line)
        return bits / max(1, characters)

    def _bits(self, trigram: str) -> float:
        probability = (1 - sum(_WEIGHTS)) / _CHARACTERS
        for begin, weight in enumerate(_WEIGHTS):
            if seen := self.seen.get(trigram[begin:]):
                probability += weight * seen / self.contexts[trigram[begin:-1]]
        return -math.log2(probability)
