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
        folder: The folder of all entries.
        inputs: All inputs that the arrays depend on, as JSON.
        types: The type of each array.
        digests: The cache of the files' digests.
        activity: What the creating process does, for the message of processes that wait for it.
    """

    folder: Path
    inputs: Mapping[str, object]
    types: Mapping[str, type[np.generic]]
    digests: DigestCache
    activity: str

    @property
    def directory(self) -> Path:
        return self.folder / hashlib.sha256(json.dumps(self.inputs, sort_keys=True).encode()).hexdigest()[:40]

    def load_or_create(self, create: Callable[[Mapping[str, Path]], None]) -> dict[str, np.ndarray]:
        """The stored arrays; if there are none yet, `create` writes each to the file of its name."""
        opened = self._open_valid()
        if opened is None:
            self.folder.mkdir(parents=True, exist_ok=True)
            with Lock.wait(self.directory.with_suffix(".lock"), self.activity):
                opened = self._open_valid()
                if opened is None:
                    self._create(create)
                    opened = self._open_valid()
        assert opened is not None, f"{self.directory} was made and does not verify"
        return opened

    def _open_valid(self) -> dict[str, np.ndarray] | None:
        """The stored arrays; None if there are none, or if their digests are wrong."""
        try:
            record = json_io.object_in(self.directory / RECORD)
            files = _files(self.directory, self.types)
            for name, file in files.items():
                expected = record["files"][name]
                if self.digests.of(file) != expected and file_digest(file) != expected:
                    return None
            os.utime(self.directory / RECORD)
            return {name: map_file(files[name], dtype) for name, dtype in self.types.items()}
        except (OSError, ValueError, KeyError, TypeError):
            return None

    def _create(self, create: Callable[[Mapping[str, Path]], None]) -> None:
        directory = self.directory
        for stale in directory.parent.glob(f"{directory.name}.partial-*"):  # of a killed process
            shutil.rmtree(stale, ignore_errors=True)
        partial = directory.with_name(f"{directory.name}.partial-{secrets.token_hex(4)}")
        partial.mkdir()
        try:
            files = _files(partial, self.types)
            create(files)
            digests = {name: file_digest(file) for name, file in files.items()}
            record = json.dumps({**self.inputs, "files": digests}, indent=1)
            (partial / RECORD).write_text(record + "\n", encoding="utf-8")
            sync_tree(partial)
            shutil.rmtree(directory, ignore_errors=True)  # an entry that does not verify
            with suppress(OSError, KeyError):  # another machine, which the lock does not cover, created it first
                partial.rename(directory)
        finally:
            shutil.rmtree(partial, ignore_errors=True)


def map_file(path: Path, dtype: type[np.generic]) -> np.ndarray:
    """A file as a one-dimensional array, memory-mapped."""
    if path.stat().st_size == 0:
        return np.zeros(0, dtype=dtype)
    return np.memmap(path, dtype=dtype, mode="r").view(np.ndarray)


def _files(directory: Path, names: Iterable[str]) -> dict[str, Path]:
    return {name: directory / f"{name}.bin" for name in names}
