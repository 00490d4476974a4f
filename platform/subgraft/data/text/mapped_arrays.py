"""A cache of arrays in files: created once by the first process that needs them, memory-mapped by all others.

    <folder>/<key>/<name>.bin       a one-dimensional array
    <folder>/<key>/record.json      the inputs of the arrays, and the digests of those files

The key is a digest of the inputs, so an entry is never out of date. Digests are verified on opening, and damaged
entries are created again; a large file is read for that only once unless it changes (see `digest_cache`). Entries are
created in a temporary folder and renamed, under a lock. Because files are mapped, all processes of a machine share one
copy in memory.
"""

from __future__ import annotations

import hashlib
import json
import os
import secrets
import shutil
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from subgraft.base import json_io
from subgraft.base.digest_cache import DigestCache
from subgraft.base.files import file_digest, sync_tree
from subgraft.base.locks import Lock

RECORD = "record.json"


@dataclass(frozen=True)
class MappedArrays:
    """Arrays by name and type, stored in one directory of a folder.

    Attributes:
        made_of: All inputs of the arrays, as JSON.
        doing: The message for processes that wait for them.
    """

    folder: Path
    made_of: Mapping[str, object]
    types: Mapping[str, type[np.generic]]
    digests: DigestCache
    doing: str

    @property
    def directory(self) -> Path:
        return self.folder / hashlib.sha256(json.dumps(self.made_of, sort_keys=True).encode()).hexdigest()[:40]

    def made_by(self, make: Callable[[Mapping[str, Path]], None]) -> dict[str, np.ndarray]:
        """The arrays; if they are not stored yet, `make` writes them to its argument's files."""
        opened = self._opened()
        if opened is None:
            self.folder.mkdir(parents=True, exist_ok=True)
            with Lock.wait(self.directory.with_suffix(".lock"), self.doing):
                opened = self._opened()
                if opened is None:
                    self._make(make)
                    opened = self._opened()
        assert opened is not None, f"{self.directory} was made and does not verify"
        return opened

    def _opened(self) -> dict[str, np.ndarray] | None:
        """The stored arrays if their digests are right; otherwise None."""
        try:
            record = json_io.object_in(self.directory / RECORD)
            files = _files(self.directory, self.types)
            for name, file in files.items():
                expected = record["files"][name]
                if self.digests.of(file) != expected and file_digest(file) != expected:
                    return None
            os.utime(self.directory / RECORD)
            return {name: mapped(files[name], dtype) for name, dtype in self.types.items()}
        except (OSError, ValueError, KeyError, TypeError):
            return None

    def _make(self, make: Callable[[Mapping[str, Path]], None]) -> None:
        directory = self.directory
        for left in directory.parent.glob(f"{directory.name}.partial-*"):  # of a killed process
            shutil.rmtree(left, ignore_errors=True)
        partial = directory.with_name(f"{directory.name}.partial-{secrets.token_hex(4)}")
        partial.mkdir()
        try:
            files = _files(partial, self.types)
            make(files)
            digests = {name: file_digest(file) for name, file in files.items()}
            record = json.dumps({**self.made_of, "files": digests}, indent=1)
            (partial / RECORD).write_text(record + "\n", encoding="utf-8")
            sync_tree(partial)
            shutil.rmtree(directory, ignore_errors=True)  # an entry that does not verify
            with suppress(OSError, KeyError):  # another machine, which locks do not reach, was quicker
                partial.rename(directory)
        finally:
            shutil.rmtree(partial, ignore_errors=True)


def mapped(path: Path, dtype: type[np.generic]) -> np.ndarray:
    """A file as a one-dimensional array, memory-mapped."""
    if path.stat().st_size == 0:
        return np.zeros(0, dtype=dtype)
    return np.memmap(path, dtype=dtype, mode="r").view(np.ndarray)


def _files(directory: Path, names: Iterable[str]) -> dict[str, Path]:
    return {name: directory / f"{name}.bin" for name in names}
