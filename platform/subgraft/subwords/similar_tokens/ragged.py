"""Arithmetic on ragged arrays: many short rows concatenated in one array."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Int64s = NDArray[np.int64]


def ragged_ranges(starts: Int64s, counts: Int64s) -> Int64s:
    """start, start + 1, …, start + count - 1 for each row, concatenated [sum of counts]."""
    offsets = np.cumsum(counts) - counts
    return np.repeat(starts - offsets, counts) + np.arange(counts.sum(), dtype=np.int64)


def positions_in_rows(rows: Int64s) -> Int64s:
    """0, 1, … within each run of equal row numbers."""
    is_first = np.ones(len(rows), dtype=np.bool_)
    is_first[1:] = rows[1:] != rows[:-1]
    positions = np.arange(len(rows), dtype=np.int64)
    return positions - np.maximum.accumulate(np.where(is_first, positions, 0))
