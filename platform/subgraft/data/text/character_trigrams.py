"""How likely a text is by the characters of another: trigrams, interpolated with shorter contexts (Jelinek 1980)."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

# Of the probabilities given two characters, one, and none; what is left is shared by all characters alike.
_WEIGHTS = (0.6, 0.3, 0.09)
_CHARACTERS = 2**16
_BEGINNING = "\n"


@dataclass(frozen=True)
class TrigramModel:
    """Counts of every character behind the two before it, behind the one before it, and by itself.

    seen: of n-grams, whose last character is the counted one.  contexts: of what is before it, however it goes on.
    """

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
        """What the line's characters take, in bits."""
        text = _BEGINNING * 2 + line
        return sum(self._bits(text[end - 2 : end + 1]) for end in range(2, len(text)))

    def bits_per_character(self, lines: Iterable[str]) -> float:
        """Of all lines together; 0 where they have no character."""
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
