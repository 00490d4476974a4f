"""Bits per character: how well a model predicts text, comparable across vocabularies.

Perplexity per token rewards short tokens; the likelihood of a whole text per character of it does not.
"""

from __future__ import annotations

import math
from collections.abc import Iterable

# The dev score that counts the references which bits per character leave out.
LEFT_OUT = "references_left_out"


def count_characters(segments: Iterable[str]) -> int:
    """Unicode code points of the reference text, spaces included; line ends are not part of a segment."""
    return sum(map(len, segments))


def bits_per_character(negative_log_likelihood: float, characters: int) -> float:
    """Summed negative log-likelihood over the characters it covers.

    Args:
        negative_log_likelihood: in nats, summed over all tokens of all segments, each end of sentence included;
            without label smoothing.
        characters: of the same segments, by `count_characters`.

    Raises:
        ValueError: there are no characters.
    """
    if characters <= 0:
        raise ValueError("bits per character of an empty text")
    return negative_log_likelihood / characters / math.log(2)
