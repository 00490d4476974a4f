"""A large file is read once, and again after anything was done to it; a note never makes a sound file unsound."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from subgraft.base import digest_cache
from subgraft.base.digest_cache import DigestCache
from subgraft.base.files import file_digest


@pytest.fixture
def read(monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    """The files that were read, one by one; files settle at once."""
    paths: list[Path] = []

    def digest(path: Path) -> str:
        paths.append(path)
        return file_digest(path)

    monkeypatch.setattr(digest_cache, "file_digest", digest)
    monkeypatch.setattr(digest_cache, "SETTLED_SECONDS", 0.01)
    monkeypatch.setattr(digest_cache, "MIN_CACHED_BYTES", 4)
    return paths


@pytest.fixture
def file(tmp_path: Path) -> Path:
    made = tmp_path / "store" / "weights"
    made.parent.mkdir()
    made.write_bytes(b"weights")
    time.sleep(0.05)
    return made


def same_size_and_time(file: Path) -> None:
    before = file.stat()
    file.write_bytes(b"weighty")
    os.utime(file, ns=(before.st_atime_ns, before.st_mtime_ns))


def another_in_its_place(file: Path) -> None:
    before = file.stat()
    (file.parent / "other").write_bytes(b"weighty")
    os.utime(file.parent / "other", ns=(before.st_atime_ns, before.st_mtime_ns))
    (file.parent / "other").replace(file)


@pytest.mark.parametrize("change", [same_size_and_time, another_in_its_place])
def test_a_file_is_read_once_until_it_changes(
    change: Callable[[Path], None], tmp_path: Path, file: Path, read: list[Path]
) -> None:
    first = DigestCache(tmp_path).of(file)
    assert DigestCache(tmp_path).of(file) == first == file_digest(file)
    assert read == [file]
    change(file)
    assert DigestCache(tmp_path).of(file) == file_digest(file) != first
    assert read == [file, file]


def test_a_file_just_written_is_read_again(
    tmp_path: Path, file: Path, read: list[Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(digest_cache, "SETTLED_SECONDS", 100.0)
    for _ in range(2):
        DigestCache(tmp_path).of(file)
    assert read == [file, file]


def test_small_files_get_no_note(tmp_path: Path, read: list[Path]) -> None:
    (tmp_path / "a").write_bytes(b"abc")
    time.sleep(0.05)
    for _ in range(2):
        DigestCache(tmp_path).of(tmp_path / "a")
    assert len(read) == 2


@pytest.mark.parametrize("damage", ["{", "[]", "changed"])
def test_a_damaged_note_is_none(damage: str, tmp_path: Path, file: Path, read: list[Path]) -> None:
    DigestCache(tmp_path).of(file)
    (note,) = (tmp_path / "digests").iterdir()
    note.write_text(json.dumps({**json.loads(note.read_text()), "sha256": "0"}) if damage == "changed" else damage)
    assert DigestCache(tmp_path).of(file) == file_digest(file)
    assert len(read) == 2


def test_forgotten_and_pruned(tmp_path: Path, file: Path, read: list[Path]) -> None:
    digests = DigestCache(tmp_path)
    digests.of(file)
    digests.prune()
    digests.of(file)
    assert len(read) == 1, "pruning takes notes of files that are gone alone"
    digests.forget()
    digests.of(file)
    assert len(read) == 2
    file.unlink()
    digests.prune()
    assert not list((tmp_path / "digests").iterdir())
