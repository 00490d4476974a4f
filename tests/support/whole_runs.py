"""`subgraft run` as a user types it."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path

# What a run says that ended because a busy machine took too long to start Ray; and that one should run it again.
BUSY = "Ray is not available"


def again_if_busy(ended: subprocess.Popen[str], start: Callable[[], subprocess.Popen[str]]) -> subprocess.Popen[str]:
    """The next attempt at a run that ended for that reason alone, and for no other."""
    said, _ = ended.communicate()
    assert BUSY in said, said
    return start()


def run_config(config: Path, home: Path, *settings: str, environment: Mapping[str, str] = os.environ) -> str:
    """What a run prints, which must succeed."""
    ended = subprocess.run(
        [sys.executable, "-m", "subgraft", "run", str(config), *settings],
        env={**environment, "SUBGRAFT_HOME": str(home)},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=800,
        check=False,
    )
    assert ended.returncode == 0, ended.stdout
    return ended.stdout
