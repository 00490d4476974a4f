"""Unigram vocabularies of many sizes from one descent: each begins its EM with the pieces of the next larger one.

A variant: retraining at a size begins with all frequent substrings instead. Their ALP differs by some tenths of a
percent; cutting one large model down, without any EM, is off by several percent, and is not offered.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from subgraft.subwords.allocation.piece_training import seeded_unigram_pieces, unigram_pieces
from subgraft.subwords.allocation.word_types import WordTypes, normalised


def descent(types: WordTypes, largest: bytes, sizes: Sequence[int]) -> Iterator[tuple[int, bytes]]:
    """A model for each size, from the largest down.

    largest: the model of the largest size, which need not be among them.  sizes: rising, all below the largest's.
    """
    above = largest
    for size in reversed(sizes):
        above = seeded_unigram_pieces(types.words, size, above)
        yield size, above


def retrained(open_lines: Callable[[], Iterator[str]], sizes: Sequence[int]) -> Iterator[tuple[int, bytes]]:
    """A model for each size by a training of its own, from the largest down: the exact way."""
    for size in reversed(sizes):
        yield size, unigram_pieces(normalised(open_lines()), size)
