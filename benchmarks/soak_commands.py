"""Commands of a soak: started in a process group of their own, killed in several ways, and what became of them."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

import psutil

# A command that takes longer than this hangs.
LONGEST_SECONDS = 900.0
FOREIGN = ("RAY_ADDRESS", "MLFLOW_TRACKING_URI")


@dataclass(frozen=True)
class Death:
    """How a command is to die, and how many seconds after its start. how: a key of KILLS."""

    how: str
    after: float


@dataclass(frozen=True)
class Ended:
    """What became of a command. code: its exit code, negative for a signal; killed: whether the kill came in time."""

    code: int
    said: str
    seconds: float
    killed: bool
    hung: bool = False

    @property
    def succeeded(self) -> bool:
        return self.code == 0 and not self.killed


def below(process: psutil.Process) -> list[psutil.Process]:
    """All descendants of a process that are there now."""
    children: list[psutil.Process] = []
    with contextlib.suppress(psutil.NoSuchProcess):
        children += process.children(recursive=True)
    return children


def _kill(process: psutil.Process, number: int = signal.SIGKILL) -> None:
    with contextlib.suppress(psutil.NoSuchProcess):
        process.send_signal(number)


def kill_tree(driver: psutil.Process) -> None:
    """As a power cut, as nearly as a command can simulate it: the driver and everything that it started."""
    for process in (driver, *below(driver)):
        _kill(process)


def _kill_stages(driver: psutil.Process) -> None:
    for process in below(driver):
        with contextlib.suppress(psutil.NoSuchProcess, psutil.AccessDenied):
            if "".join(process.cmdline()[:1]).startswith("ray::"):
                _kill(process)


KILLS: Mapping[str, Callable[[psutil.Process], None]] = {
    "whole tree": kill_tree,
    "driver only": _kill,
    "stages only": _kill_stages,
    "SIGTERM": lambda driver: _kill(driver, signal.SIGTERM),
}


def environment(home: Path) -> dict[str, str]:
    """That of commands in a home: this process's, without servers and clusters elsewhere."""
    return {name: value for name, value in os.environ.items() if name not in FOREIGN} | {"SUBGRAFT_HOME": str(home)}


def subgraft(home: Path, *words: str, death: Death | None = None, longest: float = LONGEST_SECONDS) -> Ended:
    """Run `subgraft WORDS` to its end, or to the death that is meant for it."""
    started = time.monotonic()
    with tempfile.TemporaryFile("w+", encoding="utf-8", errors="replace") as said:
        process = subprocess.Popen(
            [sys.executable, "-m", "subgraft", *words],
            env=environment(home),
            stdin=subprocess.DEVNULL,
            stdout=said,  # a pipe would be held open by whatever outlives a driver
            stderr=subprocess.STDOUT,
            process_group=0,  # Ctrl-C is for the soak alone
        )
        killed = death is not None and _waited_and_killed(process, death)
        hung = not _is_over(process, longest)
        if hung:
            kill_tree(psutil.Process(process.pid))
            process.wait()
        said.seek(0)
        return Ended(process.returncode, said.read(), time.monotonic() - started, killed, hung)


def _waited_and_killed(process: subprocess.Popen[bytes], death: Death) -> bool:
    """Whether there was something to kill when the time had come."""
    if _is_over(process, death.after):
        return False
    KILLS[death.how](psutil.Process(process.pid))
    return True


def _is_over(process: subprocess.Popen[bytes], seconds: float) -> bool:
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(seconds)
        return True
    return False


def living(home: Path) -> list[psutil.Process]:
    """Processes that work in a home, as the environment they were started with says; this one is none of them."""
    lines = []
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.NoSuchProcess, psutil.AccessDenied):
            works_here = process.environ().get("SUBGRAFT_HOME") == str(home)
            if works_here and process.pid != os.getpid() and process.status() != psutil.STATUS_ZOMBIE:
                lines.append(process)
    return lines


def seconds_until_none(home: Path, longest: float) -> tuple[float, list[str]]:
    """How long it takes until no process works in a home, and the names of those that do after the longest wait."""
    started = time.monotonic()
    while (left := living(home)) and time.monotonic() - started < longest:
        time.sleep(0.5)
    names = []
    for process in left:
        with contextlib.suppress(psutil.NoSuchProcess):
            names.append(f"{process.pid} {process.name()}")
    return time.monotonic() - started, names
