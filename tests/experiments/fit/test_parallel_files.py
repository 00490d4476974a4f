"""Two parallel files, read as documents of pairs."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest

from subgraft.base.errors import UserError
from subgraft.experiments.fit.split import read_documents


def files(place: Path, source: str, target: str) -> tuple[Path, Path]:
    paths = place / "source", place / "target"
    for path, text in zip(paths, (source, target), strict=True):
        path.write_text(text, encoding="utf-8")
    return paths


def test_lines_that_are_blank_in_both_files_end_a_document(tmp_path: Path) -> None:
    result = read_documents(*files(tmp_path, "a\nb\n\n \nc\nd\n\n", "A\nB\n\n\nC\n\n\n"))
    assert result.documents == ((("a", "A"), ("b", "B")), (("c", "C"),))
    assert result.incomplete == 1, "d has no translation"


def test_gzipped_files_are_read_and_characters_that_look_like_line_ends_replaced(tmp_path: Path) -> None:
    source, target = tmp_path / "text.en.gz", tmp_path / "text.de"
    source.write_bytes(gzip.compress("one\u2028two\n".encode()))
    target.write_text("eins zwei\n")
    assert read_documents(source, target).pairs == (("one two", "eins zwei"),)


def test_files_of_different_lengths_are_refused_with_both_lengths(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"source has 2 lines and .*target 3"):
        read_documents(*files(tmp_path, "a\nb\n", "A\nB\nC\n"))


def test_another_encoding_is_reported_with_its_line(tmp_path: Path) -> None:
    source, target = files(tmp_path, "a\nb\n", "")
    target.write_bytes("A\nGrüße\n".encode("latin-1"))
    with pytest.raises(UserError, match="target:2: not UTF-8"):
        read_documents(source, target)
