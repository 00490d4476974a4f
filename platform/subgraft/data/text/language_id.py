"""Check by character trigrams whether a text is in the language of one side of a task's pairs."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import NamedTuple

# The minimum advantage of a text, relative to that of the dev split. Measured on everyday sentences, laws and
# documentation in English and French: text in the same language has at least 0.46 of it in every domain. Nearly all of
# 46 other languages have less, or take more bits than the other side.
MIN_ADVANTAGE = 0.4
# The maximum bits per character relative to the dev split, for a task with one language. Text of another domain took at
# most 1.5 times as many bits.
MAX_BITS_RATIO = 2.0
# The shortest line, in characters, that is shown as an example.
_MIN_EXAMPLE_LENGTH = 20


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
    """Judge whether lines are in the language of one side.

    The lines are in a side's language if that side's model takes fewer bits for them than for the other side's held-out
    lines, and fewer bits than the other side's model by at least a share of the advantage on the own held-out lines.

    Args:
        lines: The lines to judge.
        own: A sample of the side.
        other: A sample of the other side; None if both sides have the same language.
    """
    own_model = TrigramModel.of(own.train)
    own_bits = own_model.bits_per_character(lines)
    long_lines = [line for line in lines if len(line) >= _MIN_EXAMPLE_LENGTH]
    unlikely = max(long_lines or lines, key=lambda line: own_model.bits_per_character([line]))
    own_baseline = own_model.bits_per_character(own.held_out)
    if other is None:
        return Similarity(Verdict.NEITHER if own_bits > MAX_BITS_RATIO * own_baseline else Verdict.OWN, unlikely)
    other_model = TrigramModel.of(other.train)
    other_bits, other_baseline = other_model.bits_per_character(lines), other_model.bits_per_character(other.held_out)
    own_model_on_other, other_model_on_own = (
        own_model.bits_per_character(other.held_out),
        other_model.bits_per_character(own.held_out),
    )
    if own_bits < own_model_on_other and other_bits - own_bits >= MIN_ADVANTAGE * (other_model_on_own - own_baseline):
        return Similarity(Verdict.OWN, unlikely)
    if other_bits < other_model_on_own and own_bits - other_bits >= MIN_ADVANTAGE * (
        own_model_on_other - other_baseline
    ):
        return Similarity(Verdict.OTHER, max(lines, key=lambda line: own_model.bits(line) - other_model.bits(line)))
    return Similarity(Verdict.NEITHER, unlikely)


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
                for start in (end - 2, end - 1, end):
                    seen[text[start : end + 1]] += 1
                    contexts[text[start:end]] += 1
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
        for start, weight in enumerate(_WEIGHTS):
            if seen := self.seen.get(trigram[start:]):
                probability += weight * seen / self.contexts[trigram[start:-1]]
        return -math.log2(probability)
