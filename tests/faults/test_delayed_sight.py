"""A store on a file system whose changes others see late, as on NFS: two runs in one store, each by its own mount.

The mounts are bindfs (FUSE) in mount namespaces of their own. Each keeps for some seconds what it has looked up: what
is there, what is not, sizes and times. Locks reach from one to the other, as on NFS of version 4.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from small_experiments import LONG_PRETRAINING, tiny, written
from subgraft.orchestration.store.record import verify_artifact
from whole_runs import BUSY, run_config

pytestmark = [
    pytest.mark.ray,
    pytest.mark.slow,
    pytest.mark.timeout(1500),
    pytest.mark.skipif(
        not (shutil.which("bindfs") and Path("/dev/fuse").exists()), reason="needs bindfs and /dev/fuse"
    ),
]

SECONDS = 4
LATE = f"attr_timeout={SECONDS},entry_timeout={SECONDS},negative_timeout={SECONDS}"
MOUNT = (
    'bindfs --multithreaded --enable-lock-forwarding -o "$1" "$2" "$3" || exit 99; '
    'home="$3"; shift 3; "$@"; code=$?; umount "$home"; exit $code'
)
# One mount sees a file of the other's only after a while: the premise of the rest.
PREMISE = """
import os, sys, time
home, theirs = sys.argv[1:]
assert not os.path.exists(f"{home}/new")
open(f"{theirs}/new", "w").close()
assert not os.path.exists(f"{home}/new")
time.sleep(float(os.environ["SECONDS_LATE"]))
assert os.path.exists(f"{home}/new")
"""


def _start(place: Path, *command: str) -> subprocess.Popen[str]:
    """A command with the store mounted at the place where every such command has it."""
    alone = ("unshare", "--map-root-user", "--mount", "sh", "-c", MOUNT, "sh")
    return subprocess.Popen(
        [*alone, LATE, str(place / "real"), str(place / "home"), *command],
        env={**os.environ, "SUBGRAFT_HOME": str(place / "home"), "SECONDS_LATE": str(SECONDS + 1)},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


@pytest.fixture
def place(tmp_path: Path) -> Path:
    for name in ("real", "home"):
        (tmp_path / name).mkdir()
    return tmp_path


def test_what_another_mount_writes_is_seen_late(place: Path) -> None:
    process = _start(place, sys.executable, "-c", PREMISE, str(place / "home"), str(place / "real"))
    said, _ = process.communicate(timeout=60)
    assert process.returncode == 0, said


def test_two_runs_at_once_end_well_and_leave_a_sound_store(place: Path) -> None:
    config = str(written(place, tiny(pretrain=LONG_PRETRAINING)))
    command = (sys.executable, "-m", "subgraft", "run", config)
    for process in [_start(place, *command) for _ in range(2)]:
        said, _ = process.communicate(timeout=1200)
        while BUSY in said:
            process = _start(place, *command)
            said, _ = process.communicate(timeout=1200)
        assert process.returncode == 0, said
        assert "Traceback" not in said
    records = list((place / "real" / "store").glob("[!.]*/*/record.json"))
    assert len(records) >= 10
    for record in records:
        verify_artifact(record.parent)
    assert not (place / "real" / "quarantine").exists()
    assert "[started]" not in run_config(Path(config), place / "real"), "everything is there"
