"""Temporary folders for unfinished results, next to the final ones; those of killed processes are removed."""

from __future__ import annotations

import os
import shutil
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from subgraft.base.errors import OperationalError
from subgraft.base.locks import Lock

PREFIX = ".subgraft-"
LOCK = "lock"  # in the folder, held by the process that made it
CONTENT = "content"
STALE_SECONDS = 7 * 24 * 3600  # the age at which a folder without a lock is removed, on a file system without locks


@contextmanager
def unfinished_folder(parent: Path) -> Iterator[Path]:
    """A new empty folder in `parent`, removed at the end. Folders of killed processes are removed first."""
    _remove_stale(parent)
    folder = Path(tempfile.mkdtemp(prefix=PREFIX, dir=parent))
    lock: Lock | None = None
    try:
        with suppress(OperationalError):  # the file system has no locks
            lock = Lock.take(folder / LOCK)
        (folder / CONTENT).mkdir()
        yield folder / CONTENT
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        if lock is not None:
            lock.release()


def _remove_stale(parent: Path) -> None:
    for folder in parent.glob(f"{PREFIX}*"):
        with suppress(OSError, OperationalError):  # another process removed it, or it belongs to another user
            status = folder.lstat()
            if folder.is_symlink() or not folder.is_dir() or status.st_uid != os.getuid():
                continue
            if not (folder / LOCK).exists():
                if time.time() - status.st_mtime > STALE_SECONDS:
                    shutil.rmtree(folder, ignore_errors=True)
            elif (lock := Lock.take(folder / LOCK)) is not None:
                shutil.rmtree(folder, ignore_errors=True)
                lock.release()
