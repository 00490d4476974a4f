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
# Between two checks. A longer gap, such as while the checking process itself was stopped, counts as two intervals.
CHECK_SECONDS = 5.0
# How long a silent process is checked for CPU use: a library may block Python for minutes.
CPU_CHECK_SECONDS = 2.0
KILL_TIMEOUT_SECONDS = 60.0


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
    process = _this_process(what)
    if process is None:
        yield
        return
    path, stopped = work / HEARTBEATS / f"{process.host}-{process.pid}.json", threading.Event()
    with contextlib.suppress(OSError):  # on a full disk the step runs unwatched, and will fail by itself
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(asdict(process)), encoding="utf-8")
    threading.Thread(target=_beat, args=(path, stopped), name="heartbeat", daemon=True).start()
    try:
        yield
    finally:
        stopped.set()
        with contextlib.suppress(OSError):
            path.unlink(missing_ok=True)


def _this_process(what: str) -> Process | None:
    ray = sys.modules.get("ray")
    if ray is None or not ray.is_initialized():
        return None
    import psutil  # Ray brings it

    node = ray.get_runtime_context().get_node_id()
    return Process(what, platform.node(), node, os.getpid(), psutil.Process().create_time())


def _beat(path: Path, stopped: threading.Event) -> None:
    while not stopped.wait(BEAT_SECONDS):
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
        self._last_checks: dict[Path, float] = {}

    def end_hanging(self, work: Path) -> list[str]:
        """Kill the hanging processes of a step's work directory; a line for each. Returns at once if none is silent."""
        now = time.monotonic()
        elapsed = min(now - self._last_checks.get(work, now), 2 * CHECK_SECONDS)
        if work in self._last_checks and elapsed < CHECK_SECONDS:
            return []
        self._last_checks[work] = now
        lines = list[str]()
        for path in sorted((work / HEARTBEATS).glob("*.json")):
            try:
                changed = path.stat().st_mtime_ns
            except OSError:  # the process has finished
                continue
            previous, silent = self._silent.get(path, (changed, 0.0))
            silent = silent + elapsed if changed == previous else 0.0
            hangs = silent > self._seconds
            self._silent[path] = changed, 0.0 if hangs else silent
            if hangs and (line := _kill_if_idle(path, self._seconds)):
                lines.append(line)
        return lines


def _kill_if_idle(path: Path, seconds: float) -> str:
    """Kill a silent process that does not compute; a message about it, or an empty string if it was not killed."""
    try:
        process = json_io.build(Process, json_io.parse(path.read_bytes()))
    except (OSError, ValueError):
        return ""
    killed = _kill_on_its_node(process)
    if killed is not False:  # it was killed, has exited, or its process id was reused: its file is obsolete
        with contextlib.suppress(OSError):
            path.unlink(missing_ok=True)
    if not killed:
        return ""
    return (
        f"{process.what} (process {process.pid} on {process.host}) sent no heartbeat for {seconds:g} s and was killed"
    )


def _kill_on_its_node(process: Process) -> bool | None:
    """True if the process was killed, False if it computes, None if it does not exist on a node of this cluster."""
    import ray
    from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

    strategy = NodeAffinitySchedulingStrategy(process.node, soft=False)
    remote_kill = ray.remote(_kill_unless_computing).options(num_cpus=0, scheduling_strategy=strategy)
    try:
        killed: bool | None = ray.get(remote_kill.remote(process.pid, process.born), timeout=KILL_TIMEOUT_SECONDS)
    except Exception:  # the node is lost, which Ray handles
        return None
    return killed


def _kill_unless_computing(pid: int, born: float) -> bool | None:
    import psutil  # Ray brings it

    try:
        process = psutil.Process(pid)
        if process.create_time() != born:
            return None
        cpu_seconds = sum(process.cpu_times()[:2])
        time.sleep(CPU_CHECK_SECONDS)
        if sum(process.cpu_times()[:2]) > cpu_seconds:
            return False
        process.send_signal(signal.SIGKILL)
    except psutil.Error:
        return None
    return True
