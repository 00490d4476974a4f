"""`subgraft` in processes of its own, in a folder with a store of its own."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from whole_runs import BUSY


def started(folder: Path, arguments: Sequence[str]) -> subprocess.Popen[str]:
    """`subgraft` with arguments, in a process of its own."""
    return subprocess.Popen(
        [sys.executable, "-m", "subgraft", *arguments],
        cwd=folder,
        env={**os.environ, "SUBGRAFT_HOME": str(folder / "home")},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def ended(folder: Path, arguments: Sequence[str]) -> tuple[int, str]:
    """Exit code and output of a command; again where the machine was too busy for Ray."""
    for _ in range(2):
        process = started(folder, arguments)
        said, _ = process.communicate(timeout=600)
        if BUSY not in said:
            break
    return process.returncode, said
