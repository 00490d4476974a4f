"""Sentences are nearest to their translations where an encoder gives both the same states."""

from __future__ import annotations

import gzip
from pathlib import Path

import torch

from shared_states import lines_of, retrieved


def test_the_share_counts_sources_that_are_nearest_to_their_own_targets() -> None:
    sources = torch.eye(4)
    assert retrieved(sources, sources) == 100
    assert retrieved(sources, sources[[0, 1, 3, 2]]) == 50
    assert retrieved(3 * sources, sources) == 100, "by angle, not by length"


def test_lines_are_read_from_plain_and_compressed_files(tmp_path: Path) -> None:
    (tmp_path / "a.en").write_text("one\ntwo\nthree\n", encoding="utf-8")
    with gzip.open(tmp_path / "a.en.gz", "wt", encoding="utf-8") as file:
        file.write("one\ntwo\nthree\n")
    for name in ("a.en", "a.en.gz"):
        assert lines_of(tmp_path / name, 2) == ["one", "two"]
