"""Results that are still being made: nothing of a killed process stays, and nothing of a living one goes."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from subgraft.base.unfinished import PREFIX, STALE_SECONDS, unfinished_folder
from subgraft.orchestration.store.outputs import new_directory

MAKING = (
    "import sys, time; from pathlib import Path; from subgraft.orchestration.store.outputs import new_directory\n"
    "with new_directory(Path(sys.argv[1])) as out:\n"
    "    (out / 'half').touch(); print(flush=True); time.sleep(600)"
)


def test_what_a_killed_command_left_goes_with_the_next_one_and_a_living_ones_stays(tmp_path: Path) -> None:
    commands = []
    for name in ("killed", "living"):
        command = subprocess.Popen([sys.executable, "-c", MAKING, str(tmp_path / name)], stdout=subprocess.PIPE)
        assert command.stdout is not None and command.stdout.readline()
        commands.append(command)
    killed, living = commands
    try:
        killed.kill()
        killed.wait()
        assert len(list(tmp_path.glob(f"{PREFIX}*"))) == 2
        with new_directory(tmp_path / "out") as out:
            (out / "whole").touch()
        assert [path.name for path in tmp_path.glob(f"{PREFIX}*/*/*/half")] == ["half"], "the living one's"
    finally:
        living.kill()
        living.wait()
    with new_directory(tmp_path / "other"):
        pass
    assert {path.name for path in tmp_path.iterdir()} == {"out", "other"}
    assert [path.name for path in (tmp_path / "out").iterdir()] == ["whole"]


def test_folders_that_are_not_ours_stay(tmp_path: Path) -> None:
    theirs = tmp_path / "theirs"
    theirs.mkdir()
    (theirs / "lock").touch()
    (tmp_path / f"{PREFIX}link").symlink_to(theirs)
    (tmp_path / f"{PREFIX}notes").touch()
    old, young = tmp_path / f"{PREFIX}old", tmp_path / f"{PREFIX}young"
    for folder, age in ((old, STALE_SECONDS + 60), (young, 60)):
        folder.mkdir()
        os.utime(folder, (time.time() - age,) * 2)
    with unfinished_folder(tmp_path) as place:
        assert not list(place.iterdir())
    names = {"theirs", f"{PREFIX}link", f"{PREFIX}notes", young.name}
    assert {path.name for path in tmp_path.iterdir()} == names and (theirs / "lock").exists()


def test_a_failure_leaves_nothing(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="broken"), unfinished_folder(tmp_path) as place:
        (place / "half").touch()
        raise ValueError("broken")
    assert not list(tmp_path.iterdir())
