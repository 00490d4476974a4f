"""Cache of the SHA-256 digests of large files, so that each file is read only once.

    <home>/digests/<key>.json     a file's path under the home, size, times, inode and SHA-256

An entry is valid while size, modification time, change time and inode are unchanged. Any write changes the change time,
which no program can set back. Disk corruption is not detected; `forget` makes every process read the files again. A
cached digest is never proof of damage: if it is not the expected one, the caller reads the file.
"""

from __future__ import annotations

import hashlib
import json
import os
import secrets
import shutil
import time
from contextlib import suppress
from pathlib import Path

from subgraft.base import json_io
from subgraft.base.files import file_digest

# Smaller files are not cached: hashing them is as fast as reading a cache entry.
MIN_CACHED_BYTES = 1 << 20
# A file that changed less than this long ago is not cached: file systems round times and machines' clocks differ, so a
# later change might get the same timestamp.
SETTLED_SECONDS = 10.0


class DigestCache:
    """Cached digests of the files under a home folder. Unreadable entries are ignored."""

    def __init__(self, home: Path) -> None:
        self._home = home
        self._folder = home / "digests"

    def of(self, path: Path) -> str:
        """The SHA-256 of a file's bytes: cached, or read now."""
        before = _file_state(path)
        if before[0] < MIN_CACHED_BYTES:
            return file_digest(path)
        entry_path = self._folder / f"{hashlib.sha256(self._relative_path(path).encode()).hexdigest()[:40]}.json"
        entry = json_io.object_in(entry_path)
        if entry.get("state") == before and entry.get("check") == _checksum(entry):
            return str(entry["sha256"])
        digest = file_digest(path)
        if _file_state(path) == before and time.time() - before[2] / 1e9 > SETTLED_SECONDS:
            new: dict[str, object] = {"path": self._relative_path(path), "state": before, "sha256": digest}
            temporary = entry_path.with_name(f"{entry_path.name}.{secrets.token_hex(4)}")
            with suppress(OSError):  # for example a read-only folder or a full disk; the cache is optional
                self._folder.mkdir(parents=True, exist_ok=True)
                temporary.write_text(json.dumps({**new, "check": _checksum(new)}), encoding="utf-8")
                temporary.replace(entry_path)
        return digest

    def forget(self) -> None:
        """Clear the cache, so that every file is read again when it is next used."""
        shutil.rmtree(self._folder, ignore_errors=True)

    def prune(self) -> None:
        """Remove the entries of deleted files."""
        for entry_path in self._folder.glob("*.json"):
            if not (self._home / str(json_io.object_in(entry_path).get("path", ""))).is_file():
                entry_path.unlink(missing_ok=True)

    def _relative_path(self, path: Path) -> str:
        return os.path.relpath(path, self._home)


def _file_state(path: Path) -> list[int]:
    status = path.stat()
    return [status.st_size, status.st_mtime_ns, status.st_ctime_ns, status.st_ino]


def _checksum(entry: dict[str, object]) -> str:
    """A digest of the entry itself, which reveals damage."""
    content = [entry.get(key) for key in ("path", "state", "sha256")]
    return hashlib.sha256(json.dumps(content).encode()).hexdigest()
