"""The folder of a local Ray: this user's alone, gone when the run is over, and what killed runs left with it."""

from __future__ import annotations

import os
import signal
import stat
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from subgraft.base.errors import OperationalError, UserError
from subgraft.base.security.local_ray import (
    FOLDER,
    LOCK,
    LOG_RETENTION_SECONDS,
    PATIENCE_SECONDS,
    PREFIX,
    ray_folder,
)

# A run that is killed: the driver waits in its folder, and a process that it started has a log there.
RUN = """
import subprocess, sys, time
from subgraft.base.security.local_ray import ray_folder
with ray_folder(print) as folder:
    with (folder / "log").open("w") as log:
        agent = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"], stdout=log)
    print(agent.pid, folder, flush=True)
    time.sleep(60)
"""


@pytest.fixture
def place(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """In place of the system's temporary folder; pytest's own paths are too long for sockets."""
    with tempfile.TemporaryDirectory(dir="/tmp", prefix="t-") as name:
        monkeypatch.setenv("RAY_TMPDIR", name)
        yield Path(name)


def test_it_is_closed_to_others_and_gone_at_the_end(place: Path) -> None:
    said: list[str] = []
    with ray_folder(said.append) as folder:
        folder.chmod(0o777)  # as Ray does
        (folder / "session").mkdir()
        assert stat.S_IMODE(folder.parent.stat().st_mode) == 0o700 and folder.parent.parent == place
    assert list(place.iterdir()) == [] and said == []


@pytest.mark.parametrize("error", [UserError("a mistake"), KeyboardInterrupt()])
def test_a_mistake_or_an_interrupt_leaves_nothing(place: Path, error: BaseException) -> None:
    said: list[str] = []
    with pytest.raises(type(error)), ray_folder(said.append):
        raise error
    assert list(place.iterdir()) == [] and said == []


@pytest.mark.parametrize("error", [OperationalError("a disk failed"), RuntimeError("Ray failed")])
def test_after_a_failure_it_is_kept_for_a_week(place: Path, error: Exception) -> None:
    said: list[str] = []
    with pytest.raises(type(error)), ray_folder(said.append) as folder:
        (folder / "log").write_text("why")
        raise error
    (line,) = said
    assert line == f"Ray's logs of this run remain for a week: {folder}/session_latest/logs"
    with ray_folder(said.append):
        assert (folder / "log").read_text() == "why"
    long_ago = time.time() - LOG_RETENTION_SECONDS - 60
    os.utime(folder.parent, (long_ago, long_ago))
    with ray_folder(said.append):
        assert not folder.exists()
    assert said == [line]


def test_what_a_killed_run_left_goes_when_its_processes_have_ended(place: Path) -> None:
    driver = subprocess.Popen([sys.executable, "-c", RUN], stdout=subprocess.PIPE, text=True)
    assert driver.stdout is not None
    agent, _, named = driver.stdout.readline().strip().partition(" ")
    left, said = Path(named), list[str]()
    try:
        with ray_folder(said.append) as mine:
            assert left.exists() and said == [], "that run goes on"
            assert mine != left
        driver.kill()
        driver.wait()
        for times in (1, 2):
            with ray_folder(said.append):
                assert left.exists() and len(said) == times
                assert f"of a run that was killed are still ending ({agent})" in said[-1]
    finally:
        os.kill(int(agent), 9)
    deadline = time.monotonic() + 30
    while left.exists():
        assert time.monotonic() < deadline
        with ray_folder(said.append):
            pass
    assert list(place.iterdir()) == []


def test_it_goes_when_the_last_process_of_its_ray_has_gone(place: Path) -> None:
    """One that is just starting has no file open yet, and would create the folder again; one that hangs is killed."""
    starting = "import os, time; time.sleep(1); os.makedirs(os.environ['SUBGRAFT_RAY_FOLDER'] + '/session/logs')"
    began = time.monotonic()
    with ray_folder(print) as folder:
        surroundings = os.environ | {FOLDER: str(folder)}
        quick = subprocess.Popen([sys.executable, "-c", starting], env=surroundings)
        hanging = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"], env=surroundings)
    assert (quick.wait(1), hanging.wait(1)) == (0, -signal.SIGKILL)
    assert list(place.iterdir()) == [] and time.monotonic() - began > PATIENCE_SECONDS


def test_what_another_put_there_is_left_alone(place: Path, tmp_path: Path) -> None:
    (tmp_path / "elsewhere" / "ray").mkdir(parents=True)
    (tmp_path / "elsewhere" / LOCK).touch()
    (place / f"{PREFIX}link").symlink_to(tmp_path / "elsewhere")
    (place / f"{PREFIX}file").touch()
    with ray_folder(print):
        pass
    assert (tmp_path / "elsewhere" / "ray").is_dir() and len(list(place.iterdir())) == 2


def test_sockets_have_room_for_their_paths(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    long = place / "a-folder-whose-name-leaves-no-room-for-sockets"
    long.mkdir()
    monkeypatch.setenv("RAY_TMPDIR", str(long))
    monkeypatch.setattr(tempfile, "tempdir", str(long))
    with ray_folder(print) as folder:
        assert folder.parent.parent == Path("/tmp")
    assert list(long.iterdir()) == []
