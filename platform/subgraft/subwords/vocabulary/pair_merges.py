"""Byte-pair encoding that starts from a vocabulary's segmentation instead of single characters.

As in Sennrich et al. (2016, *Neural Machine Translation of Rare Words with Subword Units*, algorithm 1), the most
frequent pair is joined repeatedly and becomes a new piece.
"""

from __future__ import annotations

import heapq
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

# The result of joining two neighbours; None for those that must not be joined.
Join = Callable[[str, str], str | None]


@dataclass(frozen=True)
class Joined:
    """New pieces in merge order, and their final counts in the text."""

    pieces: tuple[str, ...]
    uses: Mapping[str, int]


def join_pieces(
    words: Mapping[str, int],
    cuts: Mapping[str, tuple[str, ...]],
    join: Join,
    known: Collection[str],
    wanted: int,
    min_count: int,
    *,
    on_the_way: bool,
) -> Joined:
    """At most `wanted` new pieces; each was the most frequent join and occurred at least `min_count` times.

    Args:
        words, cuts: The count and the pieces of each word of a text.
        known: Existing pieces, which are never the result of a join.
        on_the_way: Retain a piece whose final count is too low because longer pieces replaced it, as BPE requires;
            otherwise another piece takes its place.
    """
    text = _Text(words, cuts, join, frozenset(known))
    pieces: list[str] = []
    for piece in text.joins(min_count):
        pieces.append(piece)
        if len(pieces) >= wanted and (on_the_way or len(text.used(pieces, min_count)) >= wanted):
            break
    selected = (pieces if on_the_way else text.used(pieces, min_count))[:wanted]
    return Joined(tuple(selected), {piece: text.uses[piece] for piece in selected})


class _Text:
    """A text's words as pieces that are being joined, and the counts of all possible joins."""

    def __init__(
        self, words: Mapping[str, int], cuts: Mapping[str, tuple[str, ...]], join: Join, known: Collection[str]
    ) -> None:
        self._join, self._known = join, known
        self._words = [(list(cuts[word]), times) for word, times in sorted(words.items()) if len(cuts[word]) > 1]
        self.uses: Counter[str] = Counter()
        self._counts: Counter[str] = Counter()
        self._places: defaultdict[str, set[int]] = defaultdict(set)
        for at in range(len(self._words)):
            self._count(at, 1)

    def joins(self, min_count: int) -> Iterator[str]:
        """New pieces, each joined throughout the text; ties are broken by spelling."""
        heap = [(-times, piece) for piece, times in self._counts.items()]
        heapq.heapify(heap)
        done: set[str] = set()
        while heap:
            times, piece = heapq.heappop(heap)
            now = self._counts[piece]
            if -times != now or now < min_count or piece in done:
                continue  # an outdated entry; changed counts have been pushed again
            done.add(piece)
            for changed in self._join_all(piece):
                if changed not in done and self._counts[changed] >= min_count:
                    heapq.heappush(heap, (-self._counts[changed], changed))
            yield piece

    def used(self, pieces: Sequence[str], min_count: int) -> list[str]:
        """The pieces with at least `min_count` occurrences after the joins so far."""
        return [piece for piece in pieces if self.uses[piece] >= min_count]

    def _join_all(self, piece: str) -> set[str]:
        """Joins a piece wherever its parts meet; returns the joins whose counts have changed."""
        changed: set[str] = set()
        for at in sorted(self._places[piece]):
            pieces, _ = self._words[at]
            changed |= self._count(at, -1)
            place = 0
            while place < len(pieces) - 1:
                if self._join(pieces[place], pieces[place + 1]) == piece:
                    pieces[place : place + 2] = [piece]
                place += 1
            changed |= self._count(at, 1)
        return changed

    def _count(self, at: int, sign: int) -> set[str]:
        """Adds a word to the counts (sign 1) or subtracts it (-1); returns the joins that are possible in it."""
        pieces, times = self._words[at]
        for piece in pieces:
            self.uses[piece] += sign * times
        merged = {made for left, right in pairwise(pieces) if (made := self._made(left, right)) is not None}
        for left, right in pairwise(pieces):
            made = self._made(left, right)
            if made is not None:
                self._counts[made] += sign * times
        for made in merged:
            (self._places[made].add if sign > 0 else self._places[made].discard)(at)
        return merged

    def _made(self, left: str, right: str) -> str | None:
        made = self._join(left, right)
        return None if made in self._known else made
