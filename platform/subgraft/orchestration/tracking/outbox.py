"""Operations for the tracking server, in a file: written at once, delivered when the server is available.

    <home>/tracking/<name>.jsonl     operations, one JSON line each, in order
    <home>/tracking/<name>.sent      how far they have been delivered, and the server's id of each run
    <home>/tracking/<name>.claim     the lock of the living process that owns the outbox

So a server that is down or slow delays nothing, and the next process delivers the outbox of a killed one.
"""

from __future__ import annotations

import json
import os
import secrets
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, TypeAlias

from subgraft.base import json_io
from subgraft.base.locks import Lock
from subgraft.base.redaction import redacted_values


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
    """The datasets that a run reads, as `payloads.described` describes them."""

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
class Need:
    """The run needs an artifact (by fingerprint): nothing is sent, and no garbage collection removes it."""

    run: str


@dataclass(frozen=True, slots=True)
class RegisterModel:
    """Register a directory as a version of a model, unless a version with this digest exists.

    `card` is the model card's text; `evaluation` the directory of its evaluation, whose texts are copied.
    """

    run: str
    model: str
    directory: str
    digest: str
    aliases: Sequence[str]
    tags: Mapping[str, str]
    card: str = ""
    evaluation: str = ""


@dataclass(frozen=True, slots=True)
class EndRun:
    """status: FINISHED, FAILED or KILLED."""

    run: str
    status: str
    time: int


Operation: TypeAlias = (
    StartRun | LogMetrics | SetTags | LogArtifacts | LogDatasets | LogModel | Need | RegisterModel | EndRun
)
OPERATIONS: Mapping[str, type[Operation]] = {
    kind.__name__: kind
    for kind in (StartRun, LogMetrics, SetTags, LogArtifacts, LogDatasets, LogModel, Need, RegisterModel, EndRun)
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
        prose = {name: redacted_values(value) for name, value in fields.items() if name in PROSE_FIELDS}
        with self._appending:
            json_io.append(self.path, {"kind": type(operation).__name__, **fields, **prose})

    def read(self, offset: int) -> list[tuple[Operation, int]]:
        """Operations after a byte offset, each with the offset behind it; incomplete or foreign lines are skipped."""
        operations = ((_operation(fields), end) for fields, end in json_io.read_log(self.path, offset))
        return [(operation, end) for operation, end in operations if operation is not None]

    def delivered(self) -> Delivered:
        """The last saved state of delivery."""
        try:
            sent = self.path.with_suffix(".sent").read_text(encoding="utf-8")
            noted = json_io.build(Delivered, json_io.parse(sent))
            return noted if 0 <= noted.offset <= self.path.stat().st_size else Delivered()
        except (FileNotFoundError, ValueError):
            return Delivered()

    def note(self, delivered: Delivered) -> None:
        """Save the state of delivery. After a kill before this, the last operation is delivered twice."""
        sent = self.path.with_suffix(".sent")
        unfinished = sent.with_name(f"{sent.name}.{os.getpid()}")
        unfinished.write_text(json.dumps(asdict(delivered)), encoding="utf-8")
        unfinished.replace(sent)

    def remove(self) -> None:
        """Remove the outbox after everything was delivered."""
        self.path.unlink(missing_ok=True)
        self.path.with_suffix(".sent").unlink(missing_ok=True)
        self._claim.release()

    def keep(self) -> None:
        """Leave the outbox to a later process."""
        self._claim.release()


def _operation(fields: dict[str, Any]) -> Operation | None:
    try:
        kind = OPERATIONS[fields.pop("kind")]
        return json_io.build(kind, fields)
    except (KeyError, TypeError, ValueError):
        return None
