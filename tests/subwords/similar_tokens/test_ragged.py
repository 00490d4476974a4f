from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from subgraft.subwords.similar_tokens.ragged import positions_in_rows, ragged_ranges

ROWS = st.lists(st.tuples(st.integers(0, 50), st.integers(0, 5)), max_size=12)


@given(ROWS)
def test_ragged_ranges(rows: list[tuple[int, int]]) -> None:
    starts = np.array([start for start, _ in rows], dtype=np.int64)
    counts = np.array([count for _, count in rows], dtype=np.int64)
    expected = [i for start, count in rows for i in range(start, start + count)]
    assert ragged_ranges(starts, counts).tolist() == expected


@given(st.lists(st.integers(0, 4), max_size=12))
def test_positions_in_rows(counts: list[int]) -> None:
    rows = np.repeat(np.arange(len(counts)), counts)
    assert positions_in_rows(rows).tolist() == [i for count in counts for i in range(count)]
