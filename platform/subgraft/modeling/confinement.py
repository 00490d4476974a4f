"""Bounds that a process sets itself before it reads what may come from anybody, and its end with its parent."""

from __future__ import annotations

import ctypes
import os
import resource
import signal
import sys
from pathlib import Path

_PR_SET_PDEATHSIG = 1  # of Linux's prctl
_STATUS = Path("/proc/self/status")
_GRACE_SECONDS = 5


def end_with_parent(parent: int) -> None:
    """Let the system kill this process when its parent dies; exits if the parent is dead already. Linux only.

    parent: the parent's process id.
    """
    if sys.platform != "linux":
        return
    ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != parent:  # it died before the call
        sys.exit(1)


def limit_processor_time(seconds: int) -> None:
    """Let the system end this process with SIGXCPU after this many more seconds of CPU time."""
    used = resource.getrusage(resource.RUSAGE_SELF)
    most = int(used.ru_utime + used.ru_stime) + 1 + seconds
    resource.setrlimit(resource.RLIMIT_CPU, (most, most + _GRACE_SECONDS))


def limit_memory(size: int) -> None:
    """Limit this process to this many more bytes of memory. Linux only, where the current use is known."""
    if not _STATUS.exists():
        return
    (used,) = (line.split()[1] for line in _STATUS.read_text().splitlines() if line.startswith("VmData:"))
    most = int(used) * 1024 + size
    resource.setrlimit(resource.RLIMIT_DATA, (most, most))
