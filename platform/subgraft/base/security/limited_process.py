"""Limits that a process sets itself before it reads or runs what others wrote; the operating system enforces them."""

from __future__ import annotations

import ctypes
import os
import resource
import signal
import sys
from pathlib import Path

_PR_SET_PDEATHSIG = 1  # from Linux's prctl.h
_STATUS = Path("/proc/self/status")


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
    """Let the system end this process with SIGXCPU after this many more seconds of CPU time; can be called again."""
    used = resource.getrusage(resource.RUSAGE_SELF)
    limit = int(used.ru_utime + used.ru_stime) + 1 + seconds
    signal.signal(signal.SIGXCPU, signal.SIG_DFL)  # the parent may ignore it
    resource.setrlimit(resource.RLIMIT_CPU, (limit, resource.getrlimit(resource.RLIMIT_CPU)[1]))


def limit_memory(size: int) -> None:
    """Limit this process to this many more bytes of memory. Linux only, where the current use is known."""
    if not _STATUS.exists():
        return
    (used,) = (line.split()[1] for line in _STATUS.read_text().splitlines() if line.startswith("VmData:"))
    limit = int(used) * 1024 + size
    resource.setrlimit(resource.RLIMIT_DATA, (limit, limit))
