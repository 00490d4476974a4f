"""Recognise a full disk among other failures."""

from __future__ import annotations

import errno
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from subgraft.base.errors import OperationalError

# Libraries in other languages report a full disk in words only (safetensors, SQLite, SentencePiece).
FULL_IN_WORDS = ("no space left", "os error 28", "disk is full", "disk quota exceeded")
# Bytes; a device with less is taken to be full: the write that failed may have been larger than the free space.
_ROOM = 16 << 20


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
    """The error as one message that says what is full: the file it names, or those of the folders that have no room.

    written: the paths that were being written to. Temporary files, the store and downloads are checked too: a library
    that names no file may have filled its temporary folder.
    """
    named = getattr(error, "filename", None)
    places = [Path(str(named))] if named else [place for place in (*written, *_written_to()) if _is_full(place)]
    where = ", ".join(dict.fromkeys(map(str, places or written))) or str(Path.cwd())
    hint = "Free some space there, or write elsewhere: --out, SUBGRAFT_HOME and TMPDIR say where."
    return OperationalError("no space left on the device", where=where, hint=hint)


def _written_to() -> Iterator[Path]:
    """The folders that commands write to in addition to the requested paths."""
    yield Path(tempfile.gettempdir())
    yield Path(os.environ.get("SUBGRAFT_HOME") or ".subgraft").absolute()
    yield Path(os.environ.get("HF_HOME") or Path.home() / ".cache" / "huggingface")
    yield Path.cwd()


def _is_full(place: Path) -> bool:
    """Whether its device has no room for anything, or for no further file."""
    nearest = next(parent for parent in (place, *place.absolute().parents) if parent.exists())
    system = os.statvfs(nearest)
    return system.f_bavail * system.f_frsize < _ROOM or (system.f_files > 0 and system.f_favail == 0)


def is_full_disk(error: BaseException | None) -> bool:
    """Whether an error, or one that led to it, says that the disk is full."""
    while error is not None:
        if isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT):
            return True
        if any(words in str(error).lower() for words in FULL_IN_WORDS):
            return True
        error = error.__cause__ or error.__context__
    return False
