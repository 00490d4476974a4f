"""Delivers an outbox to the tracking server from its own thread, so that no run waits for a server."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from subgraft.base.redaction import redacted
from subgraft.orchestration.tracking.model_registry import Registry
from subgraft.orchestration.tracking.outbox import (
    Delivered,
    EndRun,
    LogArtifacts,
    LogDatasets,
    LogMetrics,
    LogModel,
    Need,
    Operation,
    Outbox,
    RegisterModel,
    SetTags,
    StartRun,
)
from subgraft.orchestration.tracking.server import Server, is_refusal

LOOK_SECONDS = 3.0
RETRY_SECONDS = 15.0
# The longest that `finish` waits for one operation: a server that answers byte by byte never ends a request.
PATIENCE_SECONDS = 1800.0


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
        self._moved = time.monotonic()
        self._broken_off = False
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
        self._moved = time.monotonic()
        self._closing.set()
        self._wake.set()
        while self._thread.is_alive() and time.monotonic() - self._moved < self._patience:
            self._thread.join(min(LOOK_SECONDS, self._patience))
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
            self._wake.wait(LOOK_SECONDS if delivered else self._retry)
            self._wake.clear()

    def _attempt(self) -> bool:
        """Deliver all pending operations; False, with one line the first time, if the server is not available."""
        try:
            if self._server is None:
                server = Server(self._home, self._uri)
                for left in Outbox.left_behind(self._outbox.path.parent):
                    self._deliver_left_behind(left, server)
                self._server = server
            self._deliver(self._outbox, self._server, again=self._broken_off)
            self._broken_off = False
        except Exception as error:  # whatever the server's client raises must not end the run
            self._broken_off = True
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
            self._moved = time.monotonic()
            if isinstance(operation, StartRun):
                delivered.open.append(operation.run)
            elif isinstance(operation, EndRun) and operation.run in delivered.open:
                delivered.open.remove(operation.run)
            delivered.offset = offset
            outbox.note(delivered)
        return delivered

    def _deliver_left_behind(self, left: Outbox, server: Server) -> None:
        try:
            delivered = self._deliver(left, server, again=True)
            now = int(time.time() * 1000)
            for run in reversed(delivered.open):  # its process was killed
                execute(EndRun(run, "KILLED", now), server, delivered.runs)
        except Exception:
            left.keep()
            raise
        left.remove()


def execute(operation: Operation, server: Server, runs: dict[str, str], outbox: str = "", again: bool = False) -> None:
    """Send one operation to the server.

    Args:
        operation: The operation.
        server: The tracking server.
        runs: The server's ids by the outbox's names of runs; a StartRun adds one.
        outbox: The outbox's name, for keys of runs.
        again: It may have been executed before. A run is not started twice; other operations may be repeated.
    """
    match operation:
        case StartRun(run, parent, experiment, name, tags, params, time):
            above, key = None if parent is None else runs[parent], f"{outbox}/{run}"
            runs[run] = server.start(experiment, name, time, params, tags, above, key=key, again=again)
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
        case Need():
            pass
        case RegisterModel(run):
            with server.alone():
                Registry(server).register(runs[run], operation)
        case EndRun(run, status, time):
            server.end(runs[run], status, time)


def _reason(error: Exception) -> str:
    return (redacted(str(error)).strip() or type(error).__name__).splitlines()[0][:200]


def merge_metrics(operations: Sequence[tuple[Operation, int]], begin: int) -> Iterator[tuple[Operation, int]]:
    """Merge neighbouring LogMetrics into one per run; each operation comes with the offset it reaches.

    The offset stays at `begin` until the last of the merged operations, so points may be sent twice.
    """
    points: dict[str, list[tuple[str, float, int, int]]] = {}
    reached = begin

    def merged() -> Iterator[tuple[Operation, int]]:
        for number, (run, together) in enumerate(points.items(), 1):
            yield LogMetrics(run, together), reached if number == len(points) else begin
        points.clear()

    for operation, offset in operations:
        if isinstance(operation, LogMetrics):
            points.setdefault(operation.run, []).extend(operation.points)
        else:
            yield from merged()
            yield operation, offset
            begin = offset
        reached = offset
    yield from merged()
