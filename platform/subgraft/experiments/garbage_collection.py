"""Remove unused artifacts, work directories of finished steps and encoded text from a store.

Retained are artifacts that the caller names, that a running run or an undelivered record names, and that were finished
since the oldest running run started, whose next steps may read them. Steps locked by a living process are skipped. An
artifact is renamed before it is deleted, so that no process ever finds an incomplete one.

A run that starts meanwhile records its cached artifacts before it relies on them, and checks again that they exist
(execution/runner.py). So a collection reads these records again before it renames, and after that, when it can undo it.
"""

from __future__ import annotations

import secrets
import shutil
import time
from collections.abc import Callable, Iterator, Sequence, Set
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

from subgraft.base import json_io
from subgraft.base.digest_cache import DigestCache
from subgraft.base.errors import OperationalError
from subgraft.base.locks import Lock
from subgraft.data.text.encoded import Entry, entries
from subgraft.experiments.inventory import StoredArtifact, WorkDirectory, artifacts, work_directories
from subgraft.orchestration.store.step import Step, in_order
from subgraft.orchestration.store.store import Store
from subgraft.orchestration.tracking.tracker import PARENT

# The maximum difference in seconds between the clocks of machines that share a store.
MAX_CLOCK_SKEW = 60.0


@dataclass(frozen=True, slots=True)
class InUse:
    """Fingerprints that the runs of a home need, and the start of the oldest running one, if any."""

    fingerprints: Set[str]
    since: datetime | None


@dataclass(frozen=True, slots=True)
class Surplus:
    """Artifacts and directories to remove, and the names of those skipped because a living process holds their lock."""

    artifacts: tuple[StoredArtifact, ...]
    work: tuple[WorkDirectory, ...]
    claimed: tuple[str, ...]
    encoded: tuple[Entry, ...] = ()

    @property
    def size(self) -> int:
        """Bytes."""
        return (
            sum(artifact.size for artifact in self.artifacts)
            + sum(directory.size for directory in self.work)
            + sum(entry.size for entry in self.encoded)
        )


def needed_by(*targets: Step) -> set[str]:
    """The fingerprints of steps and of all their inputs."""
    return {step.fingerprint for step in in_order(targets)}


def in_use(home: Path) -> InUse:
    """Artifacts named in the outboxes under a home, of running runs and of dead ones with undelivered records.

    Raises OperationalError while a run is so new that it has not named its artifacts yet.
    """
    fingerprints: set[str] = set()
    started = []
    for outbox in sorted((home / "tracking").glob("*.jsonl")):
        claim = outbox.with_suffix(".claim")
        living = _is_claimed(claim)
        operations = json_io.read_log(outbox)  # none where it has been delivered meanwhile
        keys = ("run", "directory", "evaluation")
        referenced = {Path(str(operation.get(key, ""))).name for operation, _ in operations for key in keys}
        if living and referenced <= {PARENT, ""}:
            raise OperationalError("a run is just beginning here", where=str(home), hint="Try again in a minute.")
        fingerprints |= referenced
        if living:
            started.append(_claim_time(claim))
    return InUse(fingerprints, datetime.fromtimestamp(min(started) - MAX_CLOCK_SKEW, UTC) if started else None)


def surplus(home: Path, keep: Set[str], before: datetime | None = None) -> Surplus:
    """The removable artifacts: without the fingerprints in `keep`, and only those finished before `before`."""
    used = in_use(home)
    limits = [limit for limit in (before, used.since) if limit is not None]

    def is_surplus(artifact: StoredArtifact) -> bool:
        is_needed = artifact.fingerprint in keep or artifact.fingerprint in used.fingerprints
        return not is_needed and all(artifact.finished < limit for limit in limits)

    candidates = [artifact for artifact in artifacts(home) if is_surplus(artifact)]
    removed = {artifact.fingerprint for artifact in candidates}
    work = [
        directory for directory in work_directories(home) if directory.finished and directory.fingerprint in removed
    ]
    claimed = {fingerprint for fingerprint in removed if _is_claimed(_claim_file(home, fingerprint))}
    return Surplus(
        tuple(artifact for artifact in candidates if artifact.fingerprint not in claimed),
        tuple(directory for directory in work if directory.fingerprint not in claimed),
        tuple(artifact.name for artifact in candidates if artifact.fingerprint in claimed),
        tuple(_unused(home, removed - claimed, limits)),
    )


def _unused(home: Path, removed: Set[str], limits: Sequence[datetime]) -> Iterator[Entry]:
    """Encoded text whose text or vocabulary is in no retained artifact."""
    cached = [
        entry
        for entry in entries(Store(home).encoded)
        if all(datetime.fromtimestamp(entry.used, UTC) < limit for limit in limits)
    ]
    retained = (artifact for artifact in artifacts(home) if artifact.fingerprint not in removed) if cached else ()
    digests = {digest for artifact in retained for digest in artifact.digests}
    return (entry for entry in cached if not {entry.text, entry.tokenizer or entry.text} <= digests)


def remove(home: Path, unneeded: Surplus) -> int:
    """Remove the surplus, each step's work directory before its artifact, and return the freed bytes.

    Steps that were locked, or are needed by a run that started, in the meantime are skipped. After a kill, the next run
    sweeps renamed artifacts, and the next collection finds the rest.
    """
    freed = 0
    for artifact in unneeded.artifacts:
        with _claim(home, artifact.fingerprint) as free:
            if free and not _is_needed(home, artifact):
                work = [directory for directory in unneeded.work if directory.fingerprint == artifact.fingerprint]
                freed += sum(_remove(home, directory.directory, directory.size) for directory in work)
                freed += _remove(home, artifact.directory, artifact.size, partial(_is_needed, home, artifact))
    freed += sum(_remove(home, entry.directory, entry.size) for entry in unneeded.encoded)
    DigestCache(home).prune()
    return freed


def _is_needed(home: Path, artifact: StoredArtifact) -> bool:
    """Whether a running run may need it; also true while one is just starting."""
    try:
        used = in_use(home)
    except OperationalError:
        return True
    return artifact.fingerprint in used.fingerprints or (used.since is not None and artifact.finished >= used.since)


def _remove(home: Path, directory: Path, size: int, is_needed: Callable[[], bool] = lambda: False) -> int:
    """Remove a directory and return the freed bytes; undone if `is_needed()` after it was renamed."""
    renamed = home / "store" / ".partial" / f"removed-{directory.name[:12]}-{secrets.token_hex(6)}"
    renamed.parent.mkdir(parents=True, exist_ok=True)
    try:
        directory.rename(renamed)
    except FileNotFoundError:
        return 0
    if is_needed():
        with suppress(OSError):  # another artifact has been published meanwhile
            renamed.rename(directory)
            return 0
    shutil.rmtree(renamed, ignore_errors=True)
    return size


@contextmanager
def _claim(home: Path, fingerprint: str) -> Iterator[bool]:
    """Lock a step during the block; yields whether that succeeded."""
    path = _claim_file(home, fingerprint)
    path.parent.mkdir(parents=True, exist_ok=True)
    claim = Lock.take(path)
    try:
        yield claim is not None
    finally:
        if claim is not None:
            claim.release()


def _claim_file(home: Path, fingerprint: str) -> Path:
    return home / "work" / f"{fingerprint}.claim"


def _is_claimed(path: Path) -> bool:
    """Whether a living process holds the lock; an unheld one is removed."""
    if not path.exists():
        return False
    claim = Lock.take(path)
    if claim is None:
        return True
    claim.release()
    return False


def _claim_time(claim: Path) -> float:
    """The time at which a lock was taken, in seconds since the epoch; the current time if it was just released.

    A time in the future means that the clock was set back, so the lock counts as taken long ago.
    """
    now = time.time()
    try:
        taken = claim.stat().st_mtime
    except FileNotFoundError:
        return now
    return taken if taken < now + MAX_CLOCK_SKEW else MAX_CLOCK_SKEW
