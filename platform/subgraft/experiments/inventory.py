"""The inventory of a store: artifacts, work directories, and the recent runs that used them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from subgraft.orchestration.store.home import require_format
from subgraft.orchestration.store.record import RECORD, Record
from subgraft.orchestration.tracking.payloads import fingerprints_in

if TYPE_CHECKING:
    from subgraft.orchestration.tracking.server import Server

UNREADABLE = "(its record cannot be read)"
RECENT_RUNS = 20


@dataclass(frozen=True, slots=True)
class StoredArtifact:
    """An artifact as its record describes it; its files are not verified. size: bytes on file, the record's included.

    finished: when it was published, or last changed where its record cannot be read.  digests: SHA-256 of its files.
    """

    stage: str
    name: str
    fingerprint: str
    size: int
    finished: datetime
    directory: Path
    digests: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class WorkDirectory:
    """The state of a step between attempts; `finished`: whether its artifact is published."""

    fingerprint: str
    size: int
    finished: bool
    directory: Path


def artifacts(home: Path) -> list[StoredArtifact]:
    """Every artifact under a home, stage by stage, the oldest first. Raises UserError for a store of another format."""
    require_format(home)
    stages = sorted(path for path in (home / "store").glob("[!.]*") if path.is_dir())
    return [
        artifact
        for stage in stages
        for artifact in sorted(_artifacts_of(stage), key=lambda artifact: (artifact.finished, artifact.fingerprint))
    ]


def work_directories(home: Path) -> list[WorkDirectory]:
    """Every step's work directory under a home."""
    published = {path.name for path in (home / "store").glob("[!.]*/[0-9a-f]*")}
    folders = sorted(path for path in (home / "work").glob("[0-9a-f]*") if path.is_dir())
    return [WorkDirectory(path.name, size_of(path), path.name in published, path) for path in folders]


def recent_uses(server: Server) -> Mapping[str, list[str]]:
    """The newest runs that used or made an artifact, by the first `SHORT_LENGTH` digits of its fingerprint.

    The names of runs, the newest first.
    """
    uses: dict[str, list[str]] = defaultdict(list)
    for run in server.recent(RECENT_RUNS):
        for child in (run, *server.children(run)):
            for fingerprint in fingerprints_in(child.tags):
                uses[fingerprint].append(run.name)
    return uses


def size_of(directory: Path) -> int:
    """Bytes of all files below a directory; files that vanish meanwhile are ignored."""
    total = 0
    for path in directory.rglob("*"):
        try:
            total += path.lstat().st_size if path.is_symlink() or path.is_file() else 0
        except FileNotFoundError:
            continue
    return total


def _artifacts_of(stage: Path) -> Iterator[StoredArtifact]:
    for directory in stage.glob("[0-9a-f]*"):
        try:
            record = Record.from_json((directory / RECORD).read_text(encoding="utf-8"))
            name, finished = record.name, datetime.fromisoformat(record.finished)
            digests = frozenset(entry.sha256 for entry in record.files)
        except (OSError, ValueError):
            if not directory.is_dir():
                continue
            name, finished = UNREADABLE, datetime.fromtimestamp(directory.stat().st_mtime, UTC)
            digests = frozenset()
        yield StoredArtifact(stage.name, name, directory.name, size_of(directory), finished, directory, digests)
