"""Where lines begin: the same from memory and from files, which are made once and again where they are damaged."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

from subgraft.data.text import reading
from subgraft.data.text import segments as module
from subgraft.data.text.encoded import entries
from subgraft.data.text.segments import Text, line_offsets

TEXTS = [b"", b"\n", b"one", b"one\n", b"\n\none\n\ntwo", "eins\nzwei\u2028\n家\n".encode() * 9]


@pytest.fixture(autouse=True)
def every_file_is_large(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MIN_MAPPED_BYTES", 0)
    monkeypatch.setattr(module, "_SCANNED_AT_ONCE", 5)


@pytest.mark.parametrize("content", TEXTS)
def test_files_have_what_memory_has(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "text").write_bytes(content)
    cache, result = tmp_path / "cache", list[list[int]]()
    for place in (None, cache, cache):
        result.append(line_offsets(tmp_path / "text", place).tolist())
    begins = result[0]
    assert result == [begins] * 3
    assert [content[a:b].removesuffix(b"\n") for a, b in pairwise(begins)] == (
        content.removesuffix(b"\n").split(b"\n") if content else []
    )
    assert list(Text(tmp_path / "text", cache)[:]) == list(reading.lines(tmp_path / "text"))


def test_they_are_made_once_and_mapped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "text").write_bytes(TEXTS[-1])
    text = Text(tmp_path / "text", tmp_path / "cache")
    expected = [text[at] for at in range(len(text))]
    (entry,) = entries(tmp_path / "cache")
    assert entry.tokenizer is None

    def never(path: Path) -> None:
        raise AssertionError(f"{path} is looked through again")

    with monkeypatch.context() as changed:
        changed.setattr(module, "_line_ends", never)
        again = Text(tmp_path / "text", tmp_path / "cache")
        assert [again[at] for at in range(len(again))] == expected
        assert not np.asarray(again._offsets).flags.owndata
    (entry.directory / "begins.bin").write_bytes(b"\0" * 8)
    assert list(Text(tmp_path / "text", tmp_path / "cache")[:]) == expected


def test_small_files_leave_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MIN_MAPPED_BYTES", 1000)
    (tmp_path / "text").write_bytes(TEXTS[-1])
    assert len(line_offsets(tmp_path / "text", tmp_path / "cache")) == 28
    assert not (tmp_path / "cache").exists()
