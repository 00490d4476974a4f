"""Files by their digest, and writing that lasts."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path


def file_digest(path: Path) -> str:
    """The SHA-256 of a file's bytes, as 64 hexadecimal digits."""
    with path.open("rb") as handle:
        return hashlib.file_digest(handle, "sha256").hexdigest()


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
