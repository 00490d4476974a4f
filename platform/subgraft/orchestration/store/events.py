"""Events of a running stage, as JSON lines in its work directory; the display and the tracking read the file.

So a slow terminal or an unreachable tracking server never delays a training, and a killed driver loses nothing.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

from subgraft.base import json_io
from subgraft.base.redaction import redacted
from subgraft.config.runtime import Runtime

EVENTS = "events.jsonl"
PROGRESS_SECONDS = 0.5


@dataclass(frozen=True, slots=True)
class Started:
    """An attempt at the step started; time in seconds since the epoch."""

    time: float


@dataclass(frozen=True, slots=True)
class Progress:
    """`done` of `total` `what` are finished; total 0 means unknown. `now` is the current state, such as losses."""

    done: int
    total: int
    what: str
    time: float
    now: str = ""


@dataclass(frozen=True, slots=True)
class Metrics:
    """Values measured at a training step."""

    step: int
    values: Mapping[str, float]
    time: float


@dataclass(frozen=True, slots=True)
class Warned:
    """Something was damaged or lost, and the step continues without it: one line for the user."""

    line: str
    time: float


Event: TypeAlias = Started | Progress | Metrics | Warned
KINDS: Mapping[str, type[Started] | type[Progress] | type[Metrics] | type[Warned]] = {
    "started": Started,
    "progress": Progress,
    "metrics": Metrics,
    "warned": Warned,
}


class EventLog:
    """Appends events to a file, one line each."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def append(self, kind: str, **fields: Any) -> None:
        """Append an event: `kind` is a key of KINDS, `fields` are those of its class without `time`."""
        json_io.append(self._path, {"kind": kind, **fields, "time": round(time.time(), 3)})


class EventTail:
    """Reads the events appended to a file since the last read; the file may not exist yet."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._offset = 0

    def read(self) -> list[Event]:
        """The complete new lines; a line torn by a kill is skipped."""
        events = []
        for fields, end in json_io.read_log(self._path, self._offset):
            self._offset = end
            event = _event(fields)
            if event is not None:
                events.append(event)
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
    _last: tuple[str, float] = ("", 0.0)

    def progress(self, done: int, total: int, what: str, now: str = "") -> None:
        """Append at most two events a second, and always the last one."""
        moment = time.monotonic()
        if done < total and self._last[0] == what and moment - self._last[1] < PROGRESS_SECONDS:
            return
        self._last = (what, moment)
        if self.rank == 0:
            self.log.append("progress", done=int(done), total=int(total), what=what, **({"now": now} if now else {}))

    def metrics(self, step: int, values: Mapping[str, float]) -> None:
        """Append measured values."""
        if self.rank == 0:
            self.log.append("metrics", step=int(step), values={name: float(value) for name, value in values.items()})

    def warn(self, line: str) -> None:
        """Append a warning."""
        self.log.append("warned", line=redacted(line))


def _event(fields: dict[str, Any]) -> Event | None:
    try:
        kind = KINDS[fields.pop("kind")]
        return json_io.build(kind, fields)
    except (KeyError, TypeError, ValueError):
        return None
