"""Heartbeat files: a process that runs a step touches a file every few seconds, and the waiting process checks it.

A process that is stopped or hangs would otherwise block its worker group until a collective times out, and a single
step forever. No clocks are compared: only whether the file changes between two checks counts.
"""

from __future__ import annotations

import contextlib
import json
import os
import platform
import signal
import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

from subgraft.base import json_io

HEARTBEATS = "alive"
BEAT_SECONDS = 5.0
# Between two checks; a longer gap, as when the checking process was itself stopped, counts as two of these.
LOOK_SECONDS = 5.0
# How long a silent process is checked for CPU use: a library may block Python for minutes.
COMPUTES_SECONDS = 2.0
ENDING_SECONDS = 60.0


@dataclass(frozen=True, slots=True)
class Process:
    """A process that runs a step.

    Attributes:
        what: Its role in the step.
        node: Ray's id of its node.
        born: When it started, by its own clock.
    """

    what: str
    host: str
    node: str
    pid: int
    born: float


@contextlib.contextmanager
def heartbeats(work: Path, what: str) -> Iterator[None]:
    """Touch a heartbeat file in a step's work directory during the block, if this is a Ray process."""
    process = _this(what)
    if process is None:
        yield
        return
    path, over = work / HEARTBEATS / f"{process.host}-{process.pid}.json", threading.Event()
    with contextlib.suppress(OSError):  # on a full disk the step runs unwatched, and will fail by itself
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(asdict(process)), encoding="utf-8")
    threading.Thread(target=_beat, args=(path, over), name="heartbeat", daemon=True).start()
    try:
        yield
    finally:
        over.set()
        with contextlib.suppress(OSError):
            path.unlink(missing_ok=True)


def _this(what: str) -> Process | None:
    ray = sys.modules.get("ray")
    if ray is None or not ray.is_initialized():
        return None
    import psutil  # Ray brings it

    node = ray.get_runtime_context().get_node_id()
    return Process(what, platform.node(), node, os.getpid(), psutil.Process().create_time())


def _beat(path: Path, over: threading.Event) -> None:
    while not over.wait(BEAT_SECONDS):
        with contextlib.suppress(OSError):
            os.utime(path)


class Watch:
    """Kills the processes of steps that hang.

    Args:
        seconds: How long a process may go without a heartbeat.
    """

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._silent: dict[Path, tuple[int, float]] = {}
        self._looked: dict[Path, float] = {}

    def end_hanging(self, work: Path) -> list[str]:
        """Kill the hanging processes of a step's work directory; a line for each. Returns at once if none is silent."""
        now = time.monotonic()
        since = min(now - self._looked.get(work, now), 2 * LOOK_SECONDS)
        if work in self._looked and since < LOOK_SECONDS:
            return []
        self._looked[work] = now
        return [line for path in sorted((work / HEARTBEATS).glob("*.json")) if (line := self._look(path, since))]

    def _look(self, path: Path, since: float) -> str:
        try:
            changed = path.stat().st_mtime_ns
        except OSError:  # it is done
            return ""
        before, silent = self._silent.get(path, (changed, 0.0))
        silent = silent + since if changed == before else 0.0
        self._silent[path] = changed, silent
        if silent <= self._seconds:
            return ""
        self._silent[path] = changed, 0.0
        return _end(path, self._seconds)


def _end(path: Path, seconds: float) -> str:
    """Kill a silent process that does not compute; a message about it, or an empty string if it was not killed."""
    try:
        process = json_io.build(Process, json_io.parse(path.read_bytes()))
    except (OSError, ValueError):
        return ""
    ended = _asked_of_its_node(process)
    if ended is not False:  # it has exited, or another process has its number: its file remained
        with contextlib.suppress(OSError):
            path.unlink(missing_ok=True)
    if not ended:
        return ""
    return (
        f"{process.what} (process {process.pid} on {process.host}) sent no heartbeat for {seconds:g} s and was killed"
    )


def _asked_of_its_node(process: Process) -> bool | None:
    """True if it was killed, False if it computes, None if it does not exist or is not of this cluster."""
    import ray
    from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

    there = NodeAffinitySchedulingStrategy(process.node, soft=False)
    ask = ray.remote(_end_unless_it_computes).options(num_cpus=0, scheduling_strategy=there)
    try:
        ended: bool | None = ray.get(ask.remote(process.pid, process.born), timeout=ENDING_SECONDS)
    except Exception:  # of its node, of which Ray knows better
        return None
    return ended


def _end_unless_it_computes(pid: int, born: float) -> bool | None:
    import psutil  # Ray brings it

    try:
        process = psutil.Process(pid)
        if process.create_time() != born:
            return None
        before = sum(process.cpu_times()[:2])
        time.sleep(COMPUTES_SECONDS)
        if sum(process.cpu_times()[:2]) > before:
            return False
        process.send_signal(signal.SIGKILL)
    except psutil.Error:
        return None
    return True
