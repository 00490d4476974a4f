"""Operations for the tracking server, in a file: written at once, delivered by a thread when the server is available.

    <home>/tracking/<name>.jsonl     operations, one JSON line each, in order
    <home>/tracking/<name>.sent      how far they have been delivered, and the server's id of each run
    <home>/tracking/<name>.claim     the lock of the living process that owns the outbox

So a server that is down or slow delays nothing, and the next process delivers the outbox of a killed one.
"""

from __future__ import annotations

import contextlib
import json
import os
import secrets
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TypeAlias

from subgraft.base import json_io
from subgraft.base.locks import Lock
from subgraft.base.security.redaction import redact, redact_values
from subgraft.orchestration.tracking.model_registry import RegisterModel, Registry
from subgraft.orchestration.tracking.server import Server, is_refusal

POLL_SECONDS = 3.0
RETRY_SECONDS = 15.0
# The maximum time that `finish` waits for one operation: a server that answers byte by byte never ends a request.
PATIENCE_SECONDS = 1800.0


@dataclass(frozen=True, slots=True)
class StartRun:
    """Start a run; `run` and `parent` are this outbox's names, times are in milliseconds since the epoch."""

    run: str
    parent: str | None
    experiment: str
    name: str
    tags: Mapping[str, str]
    params: Mapping[str, str]
    time: int


@dataclass(frozen=True, slots=True)
class LogMetrics:
    """Points (name, value, time, step) of a run's curves."""

    run: str
    points: Sequence[tuple[str, float, int, int]]


@dataclass(frozen=True, slots=True)
class SetTags:
    """Tags added to a run."""

    run: str
    tags: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class LogArtifacts:
    """Copy files of a directory to the run's artifacts, optionally into a folder there."""

    run: str
    directory: str
    files: Sequence[str]
    folder: str = ""


@dataclass(frozen=True, slots=True)
class LogDatasets:
    """The datasets that a run reads, in the form of `payloads.describe_datasets`."""

    run: str
    datasets: Sequence[Mapping[str, str]]


@dataclass(frozen=True, slots=True)
class LogModel:
    """The model that a run trained, with its scores (as points of a curve) on one of the run's datasets.

    `dataset` is the dataset's name and digest; None if there are no scores.
    """

    run: str
    name: str
    tags: Mapping[str, str]
    scores: Sequence[tuple[str, float, int, int]]
    dataset: tuple[str, str] | None = None


@dataclass(frozen=True, slots=True)
class Pin:
    """Keep an artifact (by fingerprint) that the run uses from garbage collection; nothing is sent."""

    run: str


@dataclass(frozen=True, slots=True)
class EndRun:
    """status: FINISHED, FAILED or KILLED."""

    run: str
    status: str
    time: int


Operation: TypeAlias = (
    StartRun | LogMetrics | SetTags | LogArtifacts | LogDatasets | LogModel | Pin | RegisterModel | EndRun
)
OPERATIONS: Mapping[str, type[Operation]] = {
    kind.__name__: kind
    for kind in (StartRun, LogMetrics, SetTags, LogArtifacts, LogDatasets, LogModel, Pin, RegisterModel, EndRun)
}
# Fields of an operation that people read, with secrets redacted; the others are names and paths, used as keys.
PROSE_FIELDS = ("tags", "params", "card", "datasets")


@dataclass(slots=True)
class Delivered:
    """How far an outbox has been delivered: a byte offset, the server's run ids, and which runs have not ended."""

    offset: int = 0
    runs: dict[str, str] = field(default_factory=dict)
    open: list[str] = field(default_factory=list)


class Outbox:
    """One process's operations. Several threads may append; one thread delivers."""

    def __init__(self, path: Path, claim: Lock) -> None:
        self.path = path
        self._claim = claim
        self._appending = threading.Lock()

    @classmethod
    def create(cls, folder: Path) -> Outbox:
        """A new outbox, locked by this process."""
        folder.mkdir(parents=True, exist_ok=True)
        path = folder / f"{time.strftime('%Y%m%d-%H%M%S')}-{secrets.token_hex(4)}.jsonl"
        claim = Lock.take(path.with_suffix(".claim"))
        path.touch()
        if claim is None:
            raise RuntimeError(f"{path} belongs to another process")
        return cls(path, claim)

    @classmethod
    def left_behind(cls, folder: Path) -> Iterator[Outbox]:
        """The outboxes of dead processes, oldest first, locked one at a time."""
        for path in sorted(folder.glob("*.jsonl")):
            claim = Lock.take(path.with_suffix(".claim"))
            if claim is not None:
                if path.exists():
                    yield cls(path, claim)
                else:
                    claim.release()

    def append(self, operation: Operation) -> None:
        """Append an operation, with secrets redacted."""
        fields = asdict(operation)
        prose = {name: redact_values(value) for name, value in fields.items() if name in PROSE_FIELDS}
        with self._appending:
            json_io.append(self.path, {"kind": type(operation).__name__, **fields, **prose})

    def read(self, offset: int) -> list[tuple[Operation, int]]:
        """Operations after a byte offset, each with the offset behind it; incomplete or foreign lines are skipped."""
        operations = list[tuple[Operation, int]]()
        for fields, end in json_io.read_log(self.path, offset):
            with contextlib.suppress(KeyError, TypeError, ValueError):
                operations.append((json_io.build(OPERATIONS[fields.pop("kind")], fields), end))
        return operations

    def delivered(self) -> Delivered:
        """The last saved state of delivery."""
        try:
            sent = self.path.with_suffix(".sent").read_text(encoding="utf-8")
            delivered = json_io.build(Delivered, json_io.parse(sent))
            return delivered if 0 <= delivered.offset <= self.path.stat().st_size else Delivered()
        except (FileNotFoundError, ValueError):
            return Delivered()

    def note(self, delivered: Delivered) -> None:
        """Save the state of delivery. After a kill before this, the last operation is delivered twice."""
        sent = self.path.with_suffix(".sent")
        partial = sent.with_name(f"{sent.name}.{os.getpid()}")
        partial.write_text(json.dumps(asdict(delivered)), encoding="utf-8")
        partial.replace(sent)

    def remove(self) -> None:
        """Remove the outbox after everything was delivered."""
        self.path.unlink(missing_ok=True)
        self.path.with_suffix(".sent").unlink(missing_ok=True)
        self._claim.release()

    def keep(self) -> None:
        """Leave the outbox to a later process."""
        self._claim.release()


class Delivery:
    """Connects, delivers the outboxes of dead processes, then this process's operations, until `finish`."""

    def __init__(
        self,
        outbox: Outbox,
        home: Path,
        uri: str | None,
        say: Callable[[str], None],
        retry: float = RETRY_SECONDS,
        patience: float = PATIENCE_SECONDS,
    ) -> None:
        self._outbox = outbox
        self._home = home
        self._uri = uri
        self._say = say
        self._retry = retry
        self._patience = patience
        self._last_progress = time.monotonic()
        self._interrupted = False
        self._server: Server | None = None
        self._reported = False
        self._wake = threading.Event()
        self._closing = threading.Event()
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._run, name="tracking", daemon=True)
        self._thread.start()

    def finish(self) -> bool:
        """Wait until everything is delivered, or one more attempt has failed; returns whether everything is delivered.

        Waits at most `patience` for any one operation; the next run delivers the rest.
        """
        self._last_progress = time.monotonic()
        self._closing.set()
        self._wake.set()
        while self._thread.is_alive() and time.monotonic() - self._last_progress < self._patience:
            self._thread.join(min(POLL_SECONDS, self._patience))
        return self._done.is_set()

    def _run(self) -> None:
        while True:
            last = self._closing.is_set()
            delivered = self._attempt()
            if last:
                if delivered:
                    self._outbox.remove()
                    self._done.set()
                else:
                    self._outbox.keep()
                return
            self._wake.wait(POLL_SECONDS if delivered else self._retry)
            self._wake.clear()

    def _attempt(self) -> bool:
        """Deliver all pending operations; False, with one line the first time, if the server is not available."""
        try:
            if self._server is None:
                server = Server(self._home, self._uri)
                for leftover in Outbox.left_behind(self._outbox.path.parent):
                    self._deliver_leftover(leftover, server)
                self._server = server
            self._deliver(self._outbox, self._server, again=self._interrupted)
            self._interrupted = False
        except Exception as error:  # whatever the server's client raises must not end the run
            self._interrupted = True
            if not self._reported:
                self._reported = True
                reason = _reason(error)
                self._say(f"tracking is not available ({reason}); the run continues, and its record is sent later")
            return False
        return True

    def _deliver(self, outbox: Outbox, server: Server, again: bool) -> Delivered:
        """Deliver an outbox; with `again` the first operation may have been executed before."""
        delivered = outbox.delivered()
        for operation, offset in merge_metrics(outbox.read(delivered.offset), delivered.offset):
            try:
                execute(operation, server, delivered.runs, outbox.path.stem, again)
            except Exception as error:
                if not is_refusal(error):
                    raise
                self._say(f"tracking: {type(operation).__name__} was refused: {_reason(error)}")
            again = False
            self._last_progress = time.monotonic()
            if isinstance(operation, StartRun):
                delivered.open.append(operation.run)
            elif isinstance(operation, EndRun) and operation.run in delivered.open:
                delivered.open.remove(operation.run)
            delivered.offset = offset
            outbox.note(delivered)
        return delivered

    def _deliver_leftover(self, leftover: Outbox, server: Server) -> None:
        try:
            delivered = self._deliver(leftover, server, again=True)
            now = int(time.time() * 1000)
            for run in reversed(delivered.open):  # its process was killed
                execute(EndRun(run, "KILLED", now), server, delivered.runs)
        except Exception:
            leftover.keep()
            raise
        leftover.remove()


def execute(operation: Operation, server: Server, runs: dict[str, str], outbox: str = "", again: bool = False) -> None:
    """Send one operation to the server.

    Args:
        runs: The server's ids by the outbox's names of runs; a StartRun adds one.
        outbox: The outbox's name, for keys of runs.
        again: It may have been executed before. A run is not started twice; other operations may be repeated.
    """
    match operation:
        case StartRun(run, parent, experiment, name, tags, params, time):
            parent_id, key = None if parent is None else runs[parent], f"{outbox}/{run}"
            runs[run] = server.start(experiment, name, time, params, tags, parent_id, key=key, again=again)
        case LogMetrics(run, points):
            server.log_metrics(runs[run], points)
        case SetTags(run, tags):
            server.set_tags(runs[run], tags)
        case LogArtifacts(run, directory, files, folder):
            server.log_artifacts(runs[run], Path(directory), files, folder)
        case LogDatasets(run, datasets):
            server.log_datasets(runs[run], datasets)
        case LogModel(run, name, tags, scores, dataset):
            server.log_model(runs[run], name, tags, scores, dataset)
        case Pin():
            pass
        case RegisterModel(run):
            with server.exclusive():
                Registry(server).register(runs[run], operation)
        case EndRun(run, status, time):
            server.end(runs[run], status, time)


def _reason(error: Exception) -> str:
    return (redact(str(error)).strip() or type(error).__name__).splitlines()[0][:200]


def merge_metrics(operations: Sequence[tuple[Operation, int]], begin: int) -> Iterator[tuple[Operation, int]]:
    """Merge neighbouring LogMetrics into one per run; each operation comes with the offset it reaches.

    The offset stays at `begin` until the last of the merged operations, so points may be sent twice.
    """
    points: dict[str, list[tuple[str, float, int, int]]] = {}
    last_offset = begin

    def merged() -> Iterator[tuple[Operation, int]]:
        for number, (run, run_points) in enumerate(points.items(), 1):
            yield LogMetrics(run, run_points), last_offset if number == len(points) else begin
        points.clear()

    for operation, offset in operations:
        if isinstance(operation, LogMetrics):
            points.setdefault(operation.run, []).extend(operation.points)
        else:
            yield from merged()
            yield operation, offset
            begin = offset
        last_offset = offset
    yield from merged()
