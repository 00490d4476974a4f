"""Find the entries of a vocabulary that contain a token, for many tokens at once.

Every window of L characters of every entry gets a polynomial hash (Karp and Rabin 1987) from prefix sums. The windows
of one length are sorted by hash on first use; a token is then a binary search. Candidates are compared character by
character, so the result is exact.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from subgraft.subwords.similar_tokens.ragged import positions_in_rows, ragged_ranges
from subgraft.subwords.vocabulary.entry import Entry

# Marks the beginning of a word in front of its surface; a code point that no text contains.
BEGINNING = "\ud800"
MULTIPLIER = 0x9E3779B97F4A7C15
INVERSE_MULTIPLIER = pow(MULTIPLIER, -1, 1 << 64)
HASH_BITS = np.uint64(0xFFFFFFFF00000000)
POSITION_BITS = np.uint64(0x00000000FFFFFFFF)

Int64s = NDArray[np.int64]


@dataclass(frozen=True)
class Hyperwords:
    """Pairs of a query and an entry that contains it, by query, then in the order of the entries.

    Attributes:
        queries, entries: int64 [nnz], indices.
        prefix, suffix: bool [nnz], whether the query begins or ends the entry.
    """

    queries: Int64s
    entries: Int64s
    prefix: NDArray[np.bool_]
    suffix: NDArray[np.bool_]


class HyperwordIndex:
    """Finds the longer entries that contain a token, in the order of the entries.

    A word-initial token is found at the start of word-initial entries, any other anywhere but at a word's start.
    """

    def __init__(self, entries: Sequence[Entry]) -> None:
        self._text = _HashedText(entries)
        starts, lengths = self._text.starts, self._text.lengths
        self._entry_of = np.repeat(np.arange(len(entries), dtype=np.int64), lengths)
        # The maximum length of a window that starts at each position: up to the entry's end, but not the whole entry.
        self._max_lengths = np.repeat(starts + lengths, lengths) - np.arange(len(self._text.codes))
        self._max_lengths[starts] -= 1
        # Windows at the beginning of a word must include its marker.
        word_starts = starts[self._text.codes[starts] == ord(BEGINNING)]
        self._max_lengths[word_starts + 1] = 0
        self._sorted_windows: dict[int, NDArray[np.uint64]] = {}

    def find(self, tokens: Sequence[Entry], max_matches: int) -> Hyperwords:
        """At most `max_matches` hyperwords of each token."""
        queries = _HashedText(tokens)
        none = np.empty(0, dtype=np.int64)
        matches = [(none, none)]
        for length in np.unique(queries.lengths).tolist():
            rows = np.flatnonzero(queries.lengths == length)
            matches += self._find_of_length(queries, rows, length, max_matches)
        rows, windows = (np.concatenate(arrays) for arrays in zip(*matches, strict=True))
        order = np.argsort(rows, kind="stable")
        return self._with_positions(queries, rows[order], windows[order])

    def _find_of_length(
        self, queries: _HashedText, rows: Int64s, length: int, max_matches: int
    ) -> list[tuple[Int64s, Int64s]]:
        """Pairs of row and window. Tries a few candidates of each row first, then all of those rows that need more."""
        windows = self._windows(length)
        hashes = queries.window_hashes(length)[queries.starts[rows]] & HASH_BITS
        first = np.searchsorted(windows, hashes)
        counts = np.searchsorted(windows, hashes | POSITION_BITS, side="right") - first
        tried = np.minimum(counts, 4 * max_matches)
        candidates = windows[ragged_ranges(first, tried)]
        matches = self._verify(queries, np.repeat(rows, tried), candidates, length, max_matches)
        full = np.isin(rows, matches[0][positions_in_rows(matches[0]) == max_matches - 1])
        incomplete = ~full & (tried < counts)
        if not incomplete.any():
            return [matches]
        complete = ~np.isin(matches[0], rows[incomplete])
        candidates = windows[ragged_ranges(first[incomplete], counts[incomplete])]
        rest = self._verify(queries, np.repeat(rows[incomplete], counts[incomplete]), candidates, length, max_matches)
        return [(matches[0][complete], matches[1][complete]), rest]

    def _verify(
        self, queries: _HashedText, rows: Int64s, windows: NDArray[np.uint64], length: int, max_matches: int
    ) -> tuple[Int64s, Int64s]:
        """Row and position of windows that equal their row's token: one per entry, at most `max_matches` per row."""
        positions = (windows & POSITION_BITS).astype(np.int64)
        equal_characters = self._text.spell(positions, length) == queries.spell(queries.starts[rows], length)
        equal = equal_characters.all(axis=1)
        rows, positions = rows[equal], positions[equal]
        entries = self._entry_of[positions]
        first_of_entry = np.ones(len(entries), dtype=np.bool_)
        first_of_entry[1:] = (entries[1:] != entries[:-1]) | (rows[1:] != rows[:-1])
        rows, positions = rows[first_of_entry], positions[first_of_entry]
        within_limit = positions_in_rows(rows) < max_matches
        return rows[within_limit], positions[within_limit]

    def _windows(self, length: int) -> NDArray[np.uint64]:
        """All windows of a length, 32 bits of hash above 32 bits of position, sorted."""
        if length not in self._sorted_windows:
            allowed = np.flatnonzero(self._max_lengths >= length)
            hashes = self._text.window_hashes(length)
            windows = (hashes[allowed] & HASH_BITS) | allowed.astype(np.uint64)
            windows.sort()
            self._sorted_windows[length] = windows
        return self._sorted_windows[length]

    def _with_positions(self, queries: _HashedText, rows: Int64s, windows: Int64s) -> Hyperwords:
        entries = self._entry_of[windows]
        prefix = windows == self._text.starts[entries]
        ends = self._text.starts[entries] + self._text.lengths[entries]
        suffix = np.zeros(len(rows), dtype=np.bool_)
        lengths = queries.lengths[rows]
        for length in np.unique(lengths).tolist():
            of_length = np.flatnonzero(lengths == length)
            tails = self._text.spell(ends[of_length] - length, length)
            surfaces = queries.spell(queries.starts[rows[of_length]], length)
            suffix[of_length] = (tails == surfaces).all(axis=1)
        return Hyperwords(rows, entries, prefix, suffix)


class _HashedText:
    """Entries concatenated as code points, with prefix sums from which the hash of any window follows."""

    def __init__(self, entries: Sequence[Entry]) -> None:
        surfaces = [BEGINNING + entry.surface if entry.word_initial else entry.surface for entry in entries]
        encoded = "".join(surfaces).encode("utf-32-le", "surrogatepass")
        self.codes = np.frombuffer(encoded, dtype="<u4")
        self.lengths = np.fromiter(map(len, surfaces), dtype=np.int64, count=len(surfaces))
        self.starts = np.cumsum(self.lengths) - self.lengths
        size = len(self.codes)
        self._sums = np.zeros(size + 1, dtype=np.uint64)
        np.cumsum(_mix_bits(self.codes) * _powers(MULTIPLIER, size), out=self._sums[1:])
        self._inverse_powers = _powers(INVERSE_MULTIPLIER, size)

    def window_hashes(self, length: int) -> NDArray[np.uint64]:
        """Hashes of all windows of this length [characters - length + 1]."""
        sums = self._sums[length:] - self._sums[: max(0, len(self._sums) - length)]
        return sums * self._inverse_powers[: len(sums)]

    def spell(self, positions: Int64s, length: int) -> NDArray[np.uint32]:
        """The code points of the window at each position [positions, length]."""
        surfaces: NDArray[np.uint32] = self.codes[positions[:, None] + np.arange(length)]
        return surfaces


def _powers(base: int, count: int) -> NDArray[np.uint64]:
    """base**0, base**1, … modulo 2**64."""
    factors = np.full(count, base, dtype=np.uint64)
    factors[:1] = 1
    return np.cumprod(factors)


def _mix_bits(codes: NDArray[np.uint32]) -> NDArray[np.uint64]:
    """Spread code points over 64 bits (the finaliser of splitmix64), so that neighbours get unrelated hashes."""
    mixed = codes.astype(np.uint64) + np.uint64(MULTIPLIER)
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
        mixed = (mixed ^ (mixed >> np.uint64(shift))) * np.uint64(factor)
    return mixed ^ (mixed >> np.uint64(31))
