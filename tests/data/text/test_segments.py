"""Segments and token sequences of a file are what reading it gives, in whatever order."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

from subgraft.data.text import reading
from subgraft.data.text.batches import evenly_spaced
from subgraft.data.text.encoded import Sequences, blocks
from subgraft.data.text.segments import Pairs, Text, sides

LINES = ["\ufeffone", "", "zwei ", "три\x0bx", "四\u2028y", "\ud7ff"]


@pytest.fixture
def text(tmp_path: Path) -> Text:
    (tmp_path / "text").write_bytes(("\n".join(LINES) + "\n").encode())
    return Text(tmp_path / "text")


def test_lines_are_those_of_the_file(text: Text) -> None:
    expected = list(reading.lines(text.path))
    assert len(text) == len(expected) == 6
    assert list(text) == [text[at] for at in range(6)] == expected
    assert text[-1] == expected[-1]
    assert list(text[1:4]) == expected[1:4]
    assert list(text[1:][::2]) == expected[1:][::2]
    assert text.take(np.array([4, 0]))[1] == expected[0]
    with pytest.raises(IndexError):
        text[6]


def test_an_empty_file_has_no_lines(tmp_path: Path) -> None:
    (tmp_path / "empty").touch()
    assert list(Text(tmp_path / "empty")) == []
    assert len(Text(tmp_path / "empty")) == 0


@pytest.mark.parametrize("count", [None, 0, 1, 4, 6, 9])
def test_pairs_are_spaced_as_lists_are(text: Text, count: int | None) -> None:
    pairs = Pairs(text, text)
    assert list(pairs.evenly_spaced(count)) == list(evenly_spaced(list(pairs), count))
    assert pairs[2] == (text[2], text[2])
    assert list(pairs[1:3]) == list(pairs)[1:3]
    assert [list(side) for side in sides(pairs)] == [list(side) for side in sides(list(pairs))]


def test_sequences_come_back_cut_to_the_limit() -> None:
    packed = Sequences.of([[1, 2, 3], [], [4]], max_length=2)
    assert [packed[i] for i in range(len(packed))] == [[1, 2], [], [4]]
    assert packed.lengths.tolist() == [2, 0, 1] and packed.lengths.itemsize == 4
    other = Sequences.of([[1], [2, 3, 4], []])
    assert packed.longer(other).tolist() == other.longer(packed).tolist() == [2, 3, 1]
    assert packed.longer(other).itemsize == 4
    nothing = Sequences.of([]).truncate(5)
    assert nothing.longer(nothing).tolist() == []


def test_cutting_and_choosing_copy_no_bounds() -> None:
    settings = Sequences.of([[1, 2, 3], [], [4], [5, 6]])
    cut = settings.truncate(2)
    assert [cut[i] for i in range(4)] == [[1, 2], [], [4], [5, 6]]
    assert cut.lengths.tolist() == [2, 0, 1, 2] and cut.whole.tolist() == [False, True, True, True]
    assert cut.starts is settings.starts and cut.ends is settings.ends
    assert cut.truncate(1).lengths.tolist() == cut.truncate(1).truncate(9).lengths.tolist() == [1, 0, 1, 1]
    assert settings.whole.all() and settings.lengths.tolist() == [3, 0, 1, 2]
    taken = cut.take(np.array([3, 0]))
    assert [taken[0], taken[1]] == [[5, 6], [1, 2]] and taken.whole.tolist() == [True, False]


@pytest.mark.parametrize("room", [1, 9, 30, 10_000])
def test_blocks_hold_every_item_in_order_and_as_many_as_fit(room: int) -> None:
    costs = np.random.default_rng(room).integers(1, 15, size=400)
    bounds = blocks(costs, room)
    assert bounds[0] == 0 and bounds[-1] == 400 and (np.diff(bounds) > 0).all()
    for first, last in pairwise(bounds):
        assert costs[first:last].sum() <= room or last - first == 1
        assert last == 400 or costs[first : last + 1].sum() > room


def test_no_items_give_no_blocks() -> None:
    assert blocks(np.zeros(0, dtype=np.int64), 5).tolist() == [0]
