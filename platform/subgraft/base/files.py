"""File I/O: digests, valid paths, flushing to the device, and temporary folders of selected files."""

from __future__ import annotations

import hashlib
import os
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from subgraft.base.errors import UserError

TO_A_FILE = "Write it to a file first, and give the name of that."
MAX_NAME_BYTES = 255  # the limit of all common file systems


def file_digest(path: Path) -> str:
    """The SHA-256 of a file's bytes, as 64 hexadecimal digits. Raises UserError for a pipe, which it would empty."""
    _require_no_pipe(path)
    with path.open("rb") as handle:
        return hashlib.file_digest(handle, "sha256").hexdigest()


def require_file(path: Path) -> Path:
    """Return the path. Raises UserError unless it is that of a regular file, which can be read several times."""
    if require_path(path).is_file():
        return path
    _require_no_pipe(path)
    if path.is_dir():
        raise UserError("a file is needed here, and this is a folder", where=str(path))
    raise UserError("no such file", where=str(path))


def _require_no_pipe(path: Path) -> None:
    if path.is_fifo():
        raise UserError("a file is needed here, and this is a pipe", where=str(path), hint=TO_A_FILE)


def require_path(path: Path) -> Path:
    """Return the path. Raises UserError for an invalid path, for which system calls would raise ValueError."""
    try:
        longest = max((len(os.fsencode(part)) for part in path.parts), default=0)
    except UnicodeEncodeError:
        raise UserError("a file name cannot have surrogates (U+D800 and others)", where=ascii(str(path))) from None
    if "\0" in str(path):
        raise UserError("a file name cannot have a NUL character (U+0000)", where=ascii(str(path)))
    if longest > MAX_NAME_BYTES:
        what = f"a file name of {longest:,} bytes, where at most {MAX_NAME_BYTES} are allowed"
        raise UserError(what, where=f"{str(path)[:40]}…", hint="Is this text where a path was expected?")
    return path


def sync(path: Path) -> None:
    """Flush one file or directory to the device."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def sync_tree(directory: Path) -> None:
    """Flush a directory, its files and its subdirectories, leaves first."""
    for path in sorted(directory.iterdir()):
        if path.is_dir():
            sync_tree(path)
        else:
            sync(path)
    sync(directory)


@contextmanager
def folder_of(files: Mapping[str, Path | str]) -> Iterator[Path]:
    """A private folder that contains only these entries, by name: links to files, or text."""
    with tempfile.TemporaryDirectory(prefix="subgraft-") as directory:
        folder = Path(directory)
        for name, content in files.items():
            if isinstance(content, Path):
                (folder / name).symlink_to(content.absolute())
            else:
                (folder / name).write_text(content, encoding="utf-8")
        yield folder
