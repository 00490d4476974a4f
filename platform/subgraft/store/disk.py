"""Telling a full disk from other failures."""

from __future__ import annotations

import errno
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from subgraft.errors import OperationalError

# Libraries in other languages report a full disk in words only (safetensors, SQLite, SentencePiece).
FULL_IN_WORDS = ("no space left", "os error 28", "disk is full", "disk quota exceeded")


@contextmanager
def space_needed(directory: Path) -> Iterator[None]:
    """Turns a full disk, however it is reported below, into an OperationalError that names `directory`."""
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


def is_full_disk(error: BaseException | None) -> bool:
    """Whether an error, or one that led to it, says that the disk is full."""
    while error is not None:
        if isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT):
            return True
        if any(words in str(error).lower() for words in FULL_IN_WORDS):
            return True
        error = error.__cause__ or error.__context__
    return False
