"""The record of an artifact: its identity, inputs, provenance, and the digest of each of its files."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from subgraft.base import json_io
from subgraft.base.files import file_digest
from subgraft.orchestration.store.provenance import Provenance
from subgraft.orchestration.store.step import canonical_json, flatten, sha256_of

RECORD = "record.json"


@dataclass(frozen=True, slots=True)
class FileEntry:
    """A file of an artifact; path is relative and POSIX, size in bytes."""

    path: str
    size: int
    sha256: str


@dataclass(frozen=True, slots=True)
class Record:
    """record.json. `digest` is of the files' contents, `inputs` maps each role to {"fingerprint", "digest"}."""

    fingerprint: str
    stage: str
    revision: int
    name: str
    recipe: Mapping[str, Any]
    inputs: Mapping[str, Mapping[str, str]]
    seeds: Mapping[str, Any]
    files: tuple[FileEntry, ...]
    digest: str
    summary: Mapping[str, Any]
    seconds: float
    finished: str
    provenance: Provenance

    def to_json(self) -> str:
        """JSON text that ends with the digest of the rest, so that damage is detected."""
        content = asdict(self)
        content["record_sha256"] = sha256_of(content)
        return json.dumps(content, indent=1, ensure_ascii=False, allow_nan=False) + "\n"

    @classmethod
    def from_json(cls, text: str) -> Record:
        """Parse a record. Raises ValueError, with the reason, for a truncated, damaged or foreign one."""
        try:
            content = json_io.parse_object(text)
            declared = content.pop("record_sha256")
            if sha256_of(content) != declared:
                raise ValueError("its own digest does not match")
            content["files"] = tuple(json_io.build(FileEntry, entry) for entry in content["files"])
            content["provenance"] = json_io.build(Provenance, content["provenance"])
            return json_io.build(cls, content)
        except json.JSONDecodeError as error:
            raise ValueError(f"{RECORD} is incomplete") from error
        except (KeyError, TypeError) as error:
            raise ValueError(f"not a record ({error!r})") from error


def verify_artifact(directory: Path, *, strict: bool = True, digest: Callable[[Path], str] = file_digest) -> Record:
    """Verify an artifact against its record.

    Args:
        directory: The artifact.
        strict: Whether files that the record does not list are an error.
        digest: Of a file: computed, or from a cache.

    Returns:
        The record.

    Raises:
        FileNotFoundError: If there is no record.
        ValueError: With the path that differs from the record.
    """
    record = Record.from_json((directory / RECORD).read_text(encoding="utf-8"))
    present = {entry.path: entry for entry in file_entries(directory, digest)}
    expected = {entry.path: entry for entry in record.files}
    for path in sorted(present.keys() | expected.keys() if strict else expected):
        if present.get(path) != expected.get(path):
            raise ValueError(f"{path} is not as recorded")
    return record


def file_entries(directory: Path, digest: Callable[[Path], str] = file_digest) -> tuple[FileEntry, ...]:
    """Every regular file below `directory` except its record, sorted by path, hashed on a few threads.

    Raises ValueError for anything that is neither file nor directory (a link's target could change unseen).
    """
    paths = sorted(path for path in _walk(directory) if path != directory / RECORD)
    with ThreadPoolExecutor(max_workers=4) as pool:
        digests = list(pool.map(digest, paths))
    return tuple(
        FileEntry(path.relative_to(directory).as_posix(), path.stat().st_size, digest)
        for path, digest in zip(paths, digests, strict=True)
    )


def content_digest(files: Iterable[FileEntry]) -> str:
    """One SHA-256 hex over paths and contents."""
    return sha256_of([[entry.path, entry.sha256] for entry in files])


def seeds_in(recipe: Mapping[str, Any]) -> dict[str, Any]:
    """Every setting of a recipe called seed or seeds, by dotted key."""
    return {key: value for key, value in flatten(recipe).items() if key.rpartition(".")[2] in ("seed", "seeds")}


def to_plain_json(value: Mapping[str, Any]) -> dict[str, Any]:
    """Convert a summary to JSON values (tuples become lists). Raises TypeError or ValueError if that is impossible."""
    return dict(json.loads(canonical_json(value)))


def _walk(directory: Path) -> Iterable[Path]:
    for path in directory.iterdir():
        if path.is_symlink() or not (path.is_file() or path.is_dir()):
            raise ValueError(f"{path.name} is neither a file nor a directory")
        if path.is_dir():
            yield from _walk(path)
        else:
            yield path
