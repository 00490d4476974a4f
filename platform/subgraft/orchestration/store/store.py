"""Artifacts, each made once: written to a partial directory, recorded, published by one rename, verified before use.

    <home>/store/<stage>/<fingerprint>/      an artifact: the stage's files and record.json
    <home>/store/.format                     the number of the format, written before the first artifact
    <home>/store/.partial/<name>/            one being written
    <home>/store/.partial/<name>.writer      the lock of its process, taken before it is created
    <home>/work/<fingerprint>/               state of a step between attempts; survives kills
    <home>/encoded/                          text as token ids, shared by all steps (data/text/encoded.py)
    <home>/measured/                         measured speeds of machines (training/auto_precision.py)
    <home>/digests/                          digests of large files that have not changed since
    <home>/quarantine/                       artifacts that did not verify

Of any number of concurrent writers exactly one wins, by rename(2) and without locks. The home must be on one POSIX
file system.
"""

from __future__ import annotations

import errno
import secrets
import shutil
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from subgraft.base.digest_cache import DigestCache
from subgraft.base.errors import OperationalError
from subgraft.base.files import sync, sync_tree
from subgraft.base.locks import Lock
from subgraft.base.security import terminal_escaping
from subgraft.orchestration.store.disk import space_needed
from subgraft.orchestration.store.home import require_format, write_format
from subgraft.orchestration.store.provenance import Provenance
from subgraft.orchestration.store.record import (
    RECORD,
    Record,
    content_digest,
    file_entries,
    seeds_in,
    to_plain_json,
    verify_artifact,
)
from subgraft.orchestration.store.step import Step

if TYPE_CHECKING:
    from subgraft.training.context import Json

WRITER = ".writer"


class Store:
    """The artifacts under a home directory. `say` receives a line for every artifact moved to quarantine.

    Raises UserError for a home whose artifacts have another format (`home.STORE_FORMAT`).
    """

    def __init__(self, home: Path, say: Callable[[str], None] | None = None) -> None:
        self.home = home.absolute()
        require_format(self.home)
        self.say = say or (lambda line: terminal_escaping.say(line, to=sys.stderr))
        self._digests = DigestCache(self.home)
        self._verified: dict[str, tuple[object, Record]] = {}

    def path(self, step: Step) -> Path:
        """The path of the step's artifact, whether it exists or not."""
        return self.home / "store" / step.stage.stage_name / step.fingerprint

    def work(self, step: Step) -> Path:
        """The step's work directory; not created here."""
        return self.home / "work" / step.fingerprint

    @property
    def encoded(self) -> Path:
        """The cache of encoded text; not created here."""
        return self.home / "encoded"

    @property
    def measured(self) -> Path:
        """The cache of speed measurements; not created here."""
        return self.home / "measured"

    def find(self, step: Step) -> Record | None:
        """The record of a step's artifact, every file verified by size and SHA-256, or None.

        An artifact that does not verify is moved to quarantine and counts as absent. A process hashes an artifact
        once, and again if any file's size, times or inode have changed; digests of large files that other processes
        have hashed are cached (base/digest_cache.py).
        """
        directory = self.path(step)
        try:
            state = _state(directory)
            cached = self._verified.get(step.fingerprint)
            if cached and cached[0] == state:
                return cached[1]
            record = self._verify(directory, step)
        except FileNotFoundError as error:
            if not directory.exists():
                return None
            self._quarantine(directory, f"{Path(error.filename).name} is missing")
            return None
        except ValueError as error:
            self._quarantine(directory, str(error))
            return None
        self._verified[step.fingerprint] = (state, record)
        return record

    def _verify(self, directory: Path, step: Step) -> Record:
        try:
            record = verify_artifact(directory, digest=self._digests.of)
        except ValueError:  # by cached digests; hash the files again
            record = verify_artifact(directory)
        if (record.fingerprint, record.stage) != (step.fingerprint, step.stage.stage_name):
            raise ValueError("the record is of another step")
        return record

    def forget_digests(self) -> None:
        """Clear the digest cache: every file is hashed again before use."""
        self._digests.forget()

    def artifact(self, step: Step) -> Path:
        """The directory of a step's artifact, verified. Raises OperationalError if it does not exist."""
        if self.find(step) is None:
            raise OperationalError(f"{step.name} has not been made yet", where=str(self.path(step)))
        return self.path(step)

    def records(self, stage: str) -> Iterator[Record]:
        """The readable records of a stage, files unverified, by fingerprint: for comparing recipes."""
        for directory in sorted((self.home / "store" / stage).glob("[0-9a-f]*")):
            try:
                yield Record.from_json((directory / RECORD).read_text(encoding="utf-8"))
            except (OSError, ValueError):
                continue

    def publish(
        self,
        step: Step,
        write: Callable[[Path], Mapping[str, Json]],
        provenance: Provenance | None = None,
    ) -> Record:
        """Fill a new directory with `write`, record it and publish it.

        Returns:
            The record of the published artifact, which another process may have published first.

        Raises:
            OperationalError: If the disk is full. Exceptions of `write` pass through; nothing is published then.
        """
        with space_needed(self.home), self._partial(step) as out:
            started = time.monotonic()
            summary = to_plain_json(write(out))
            record = self._describe(step, out, summary, time.monotonic() - started, provenance or Provenance.here())
            (out / RECORD).write_text(record.to_json(), encoding="utf-8")
            sync_tree(out)
            return self._rename(step, out, record)

    def sweep(self) -> None:
        """Remove the partial directories of dead processes."""
        for partial in {path.with_suffix("") for path in (self.home / "store" / ".partial").glob("*")}:
            claim = Lock.take(partial.with_suffix(WRITER))
            if claim is not None:
                shutil.rmtree(partial, ignore_errors=True)
                claim.release()

    @contextmanager
    def _partial(self, step: Step) -> Iterator[Path]:
        self.sweep()
        write_format(self.home)
        claim = None
        while claim is None:
            partial = self.home / "store" / ".partial" / f"{step.fingerprint[:12]}-{secrets.token_hex(6)}"
            partial.parent.mkdir(parents=True, exist_ok=True)
            claim = Lock.take(partial.with_suffix(WRITER))
        try:
            partial.mkdir()
            yield partial
        finally:
            shutil.rmtree(partial, ignore_errors=True)
            claim.release()

    def _describe(
        self, step: Step, out: Path, summary: Mapping[str, Json], seconds: float, provenance: Provenance
    ) -> Record:
        recipe = step.stage.model_dump(mode="json")
        files, inputs = file_entries(out), dict[str, dict[str, str]]()
        for role, source in step.inputs.items():
            # The runner has verified the files of inputs; here only the digest is needed.
            made = Record.from_json((self.path(source) / RECORD).read_text(encoding="utf-8"))
            inputs[role] = {"fingerprint": made.fingerprint, "digest": made.digest}
        return Record(
            fingerprint=step.fingerprint,
            stage=step.stage.stage_name,
            revision=step.stage.revision,
            name=step.name,
            recipe=recipe,
            inputs=inputs,
            seeds=seeds_in(recipe),
            files=files,
            digest=content_digest(files),
            summary=summary,
            seconds=round(seconds, 3),
            finished=datetime.now(UTC).isoformat(timespec="seconds"),
            provenance=provenance,
        )

    def _rename(self, step: Step, out: Path, record: Record) -> Record:
        target = self.path(step)
        target.parent.mkdir(parents=True, exist_ok=True)
        while True:
            try:
                out.rename(target)
            except OSError as error:
                if error.errno not in (errno.EEXIST, errno.ENOTEMPTY):
                    raise
                winner = self.find(step)
                if winner is not None:
                    return winner
                continue  # it did not verify, and was moved to quarantine
            sync(target.parent)
            self._verified[step.fingerprint] = (_state(target), record)
            return record

    def _quarantine(self, directory: Path, problem: str) -> None:
        identity = directory.stat().st_ino if directory.exists() else None
        quarantined = self.home / "quarantine" / f"{directory.parent.name}-{directory.name[:12]}-{secrets.token_hex(4)}"
        quarantined.parent.mkdir(parents=True, exist_ok=True)
        try:
            directory.rename(quarantined)
        except FileNotFoundError:
            return  # another process moved it first
        if identity is not None and quarantined.stat().st_ino != identity:
            quarantined.rename(directory)  # a valid artifact had just replaced it
            return
        self.say(f"{directory.parent.name} {directory.name[:12]} is damaged ({problem}); moved to {quarantined}")


def _state(directory: Path) -> tuple[tuple[str, int, int, int, int], ...]:
    """Name, size, times and inode of every path in a directory. Raises FileNotFoundError if absent."""
    paths = [directory, *sorted(directory.rglob("*"))]
    stats = [(str(path), path.stat()) for path in paths]
    return tuple((name, stat.st_size, stat.st_mtime_ns, stat.st_ctime_ns, stat.st_ino) for name, stat in stats)
