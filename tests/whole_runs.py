"""`subgraft run` as a user types it."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path


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
