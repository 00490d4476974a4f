"""Events of a running stage, from the worker's file to the observers in the process that runs the plan.

The worker appends events to a file of JSON lines in the step's work directory (EventLog). The runner reads the file
(EventTail) and calls its observers: the display, the tracking, a search. So a slow terminal or an unreachable
tracking server never delays a training, and a killed driver loses nothing.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TypeAlias

from subgraft.base import json_io
from subgraft.base.security.redaction import redact
from subgraft.config.runtime import Runtime
from subgraft.orchestration.store.record import Record
from subgraft.orchestration.store.step import Step

EVENTS = "events.jsonl"
PROGRESS_SECONDS = 0.5


def _now() -> float:
    """Seconds since the epoch, to a millisecond."""
    return round(time.time(), 3)


@dataclass(frozen=True, slots=True)
class Started:
    """An attempt at the step started."""

    time: float = field(default_factory=_now)


@dataclass(frozen=True, slots=True)
class Progress:
    """`done` of `total` `what` are finished; total 0 means unknown. `now` is the current state, such as losses."""

    done: int
    total: int
    what: str
    time: float = field(default_factory=_now)
    now: str = ""


@dataclass(frozen=True, slots=True)
class Metrics:
    """Values measured at a training step."""

    step: int
    values: Mapping[str, float]
    time: float = field(default_factory=_now)


@dataclass(frozen=True, slots=True)
class Warned:
    """Something was damaged or lost, and the step continues without it: one line for the user."""

    line: str
    time: float = field(default_factory=_now)


@dataclass(frozen=True, slots=True)
class Noted:
    """A choice that the step made for the user, in one line that is the same for all steps that chose the same."""

    line: str
    time: float = field(default_factory=_now)


Event: TypeAlias = Started | Progress | Metrics | Warned | Noted
# By the `kind` of a line in the file.
KINDS: Mapping[str, type[Started] | type[Progress] | type[Metrics] | type[Warned] | type[Noted]] = {
    "started": Started,
    "progress": Progress,
    "metrics": Metrics,
    "warned": Warned,
    "noted": Noted,
}


class EventLog:
    """Appends events to a file, one line each."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def append(self, event: Event) -> None:
        json_io.append(self._path, {"kind": type(event).__name__.lower(), **asdict(event)})


class EventTail:
    """Reads the events appended to a file since the last read; the file may not exist yet."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._offset = 0

    def read(self) -> list[Event]:
        """The complete new lines; a line torn by a kill is skipped."""
        events = list[Event]()
        for fields, end in json_io.read_log(self._path, self._offset):
            self._offset = end
            with contextlib.suppress(KeyError, TypeError, ValueError):
                kind = KINDS[fields.pop("kind")]
                if "time" in fields:
                    events.append(json_io.build(kind, fields))
        return events


@dataclass
class StageContext:
    """The Context of a running stage: rank 0 reports progress and metrics, every rank warns."""

    work: Path
    runtime: Runtime
    log: EventLog
    rank: int = 0
    cache: Path | None = None
    measured: Path | None = None
    command: str = ""
    _last: tuple[str, float] = ("", 0.0)

    def progress(self, done: int, total: int, what: str, now: str = "") -> None:
        """Append at most two events a second, and always the last one."""
        moment = time.monotonic()
        if done < total and self._last[0] == what and moment - self._last[1] < PROGRESS_SECONDS:
            return
        self._last = (what, moment)
        if self.rank == 0:
            self.log.append(Progress(int(done), int(total), what, now=now))

    def metrics(self, step: int, values: Mapping[str, float]) -> None:
        if self.rank == 0:
            self.log.append(Metrics(int(step), {name: float(value) for name, value in values.items()}))

    def warn(self, line: str) -> None:
        self.log.append(Warned(redact(line)))

    def note(self, line: str) -> None:
        if self.rank == 0:
            self.log.append(Noted(line))


class Observer:
    """Called by the runner in its own thread; calls return at once and do not raise. The base class does nothing."""

    def cached(self, step: Step, record: Record) -> None:
        """The step's artifact is in the store already."""

    def started(self, step: Step) -> None:
        """The step is running now; before, it may have waited in the scheduler."""

    def progress(self, step: Step, event: Progress) -> None:
        """The stage reported progress."""

    def metrics(self, step: Step, event: Metrics) -> None:
        """The stage reported values; after a kill, also those of the previous attempt."""

    def warned(self, step: Step, event: Warned) -> None:
        """The stage continues without something that was damaged."""

    def noted(self, step: Step, event: Noted) -> None:
        """The stage made a choice that the user should know."""

    def finished(self, step: Step, record: Record) -> None:
        """The step's artifact is published."""

    def failed(self, step: Step, error: BaseException) -> None:
        """The step ended with an error, or was stopped."""
