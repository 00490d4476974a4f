"""Segments of a file are what reading it gives, whatever is asked for and in whatever order."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from subgraft.data.text import reading
from subgraft.data.text.batches import evenly_spaced
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
