"""Recognise a full disk among other failures."""

from __future__ import annotations

import errno
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from subgraft.base.errors import OperationalError

# Libraries in other languages (safetensors, SQLite, SentencePiece) report a full disk only in their message.
FULL_MESSAGES = ("no space left", "os error 28", "disk is full", "disk quota exceeded")
# A device with less free space counts as full: the write that failed may have been larger.
_MIN_FREE_BYTES = 16 << 20


@contextmanager
def space_needed(directory: Path) -> Iterator[None]:
    """Turns any report of a full disk into an OperationalError that names `directory`."""
    try:
        yield
    except Exception as error:
        if is_full_disk(error):
            raise OperationalError(
                "no space left on the device; what was finished before is untouched",
                where=str(directory),
                hint="free some space, or set SUBGRAFT_HOME to a larger disk, and run the same command again",
            ) from error
        raise


def full_disk(error: BaseException, *written: Path) -> OperationalError:
    """An error that names the full places: the error's own file, or every folder without space.

    Args:
        error: The original error.
        written: The paths that were being written to. Temporary files, the store and downloads are checked too: a
            library that names no file may have filled its temporary folder.
    """
    filename = getattr(error, "filename", None)
    store = Path(os.environ.get("SUBGRAFT_HOME") or ".subgraft").absolute()
    downloads = Path(os.environ.get("HF_HOME") or Path.home() / ".cache" / "huggingface")
    candidates = (*written, Path(tempfile.gettempdir()), store, downloads, Path.cwd())
    full = [Path(str(filename))] if filename else [path for path in candidates if _is_full(path)]
    where = ", ".join(dict.fromkeys(map(str, full or written))) or str(Path.cwd())
    hint = "Free some space there, or write elsewhere: --out, SUBGRAFT_HOME and TMPDIR say where."
    return OperationalError("no space left on the device", where=where, hint=hint)


def _is_full(path: Path) -> bool:
    """Whether the device of a path has no free space or no free inode."""
    nearest = next(parent for parent in (path, *path.absolute().parents) if parent.exists())
    system = os.statvfs(nearest)
    return system.f_bavail * system.f_frsize < _MIN_FREE_BYTES or (system.f_files > 0 and system.f_favail == 0)


def is_full_disk(error: BaseException | None) -> bool:
    """Whether an error, or one of its causes, reports a full disk."""
    while error is not None:
        if isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT):
            return True
        if any(words in str(error).lower() for words in FULL_MESSAGES):
            return True
        error = error.__cause__ or error.__context__
    return False
