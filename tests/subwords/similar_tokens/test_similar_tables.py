"""Similar tokens of many tokens, as arrays and as a table."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from subgraft.subwords.similar_tokens.finder import SimilarRow, SimilarTokenFinder, similar_rows
from subgraft.subwords.similar_tokens.ragged import positions_in_rows, ragged_ranges
from subgraft.subwords.vocabulary.entry import Entry
from subgraft.subwords.vocabulary.tokenizer import Tokenizer
from vocabularies import unigram, wordpiece

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


def _rows(tokenizer: Tokenizer, *entries: Entry) -> list[SimilarRow]:
    return list(similar_rows(tokenizer, entries, SimilarTokenFinder(tokenizer).find(entries)))


def test_rows_are_spelled_with_the_vocabularys_mark() -> None:
    assert _rows(unigram(["▁pre", "view", "▁previews"]), Entry("preview", True)) == [
        ("▁preview", "▁pre", "subword", "prefix", 1),
        ("▁preview", "view", "subword", "suffix", 2),
        ("▁preview", "▁previews", "hyperword", "prefix", 3),
    ]


def test_stand_ins_are_distinguished() -> None:
    kinds = [
        (row.token, row.kind, row.rank) for row in _rows(wordpiece(["n", "##a"]), Entry("naï", True), Entry("ï", False))
    ]
    assert kinds == [("naï", "character", 1), ("naï", "character", 2), ("##ï", "mean", 1)]
    fallback = unigram(["▁a"], byte_fallback=True)
    assert [row.kind for row in _rows(fallback, Entry("é", False))] == ["byte", "byte"]
