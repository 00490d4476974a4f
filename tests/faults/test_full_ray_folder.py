"""Ray's own folder without room, which is a small tmpfs in a mount namespace of the process's own."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from small_experiments import TINY, written

pytestmark = [pytest.mark.ray, pytest.mark.slow, pytest.mark.timeout(900)]

# The mount is seen by this process and its children alone, and goes with them.
RUN = 'mount -t tmpfs -o "$1" tmpfs "$2" && export RAY_TMPDIR="$2" && shift 2 && exec "$@"'
ALONE = ("unshare", "--map-root-user", "--mount", "sh", "-c", RUN, "sh")


def _run(place: Path, folder: str, mount: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*ALONE, mount, folder, sys.executable, "-m", "subgraft", "run", str(written(place, TINY))],
        env={**os.environ, "SUBGRAFT_HOME": str(place / "home")},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=800,
        check=False,
    )


@pytest.fixture
def folder() -> Iterator[str]:
    """Of a path that is short enough for Ray's sockets."""
    with tempfile.TemporaryDirectory(prefix="r-", dir="/tmp") as made:
        yield made


@pytest.mark.parametrize(
    ("mount", "message"), [("nr_inodes=1", "no folder for Ray can be made"), ("size=16k", "no room for Ray's")]
)
def test_a_run_says_that_rays_folder_has_no_room(mount: str, message: str, folder: str, tmp_path: Path) -> None:
    ended = _run(tmp_path, folder, mount)
    assert ended.returncode == 1, ended.stdout
    assert message in ended.stdout and "RAY_TMPDIR" in ended.stdout
    assert "Traceback" not in ended.stdout


def test_logs_that_find_no_room_hold_nothing_up(folder: str, tmp_path: Path) -> None:
    """A few hundred kilobytes, which Ray's logs of a short run fill."""
    ended = _run(tmp_path, folder, "size=400k")
    assert ended.returncode == 0, ended.stdout
    assert list((tmp_path / "home" / "store" / "report").iterdir())
