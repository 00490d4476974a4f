"""A full disk, which is a small tmpfs in a mount namespace of the process's own."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from small_experiments import written
from subgraft.orchestration.store.disk import is_full_disk
from traced_training import CONFIG
from whole_runs import BUSY

# The mount is seen by this process and its children alone, and goes with them.
ALONE = ("unshare", "--map-root-user", "--mount", "sh", "-c")
MOUNT = 'mount -t tmpfs -o size="$1" tmpfs "$2" && shift 2 && exec "$@"'
PUBLISH = """
import os, sys
from pathlib import Path
import numpy as np
from safetensors.numpy import save_file
from subgraft.base.errors import OperationalError
from subgraft.orchestration.store.step import Step
from subgraft.orchestration.store.store import Store
from subgraft.training.stage import Stage

class Written(Stage):
    stage_name = "corpus"
    revision = 1

    name: str

def step(name):
    return Step(Written(name=name), name)

def by_python(out):
    (out / "large").write_bytes(os.urandom(4 << 20))

def by_another_library(out):
    save_file({"weight": np.ones(1 << 20, np.float32)}, out / "model.safetensors")

store = Store(Path(sys.argv[1]) / "home")
store.publish(step("before"), lambda out: (out / "small").write_bytes(b"x") and {})
for write in (by_python, by_another_library):
    large = step(write.__name__)
    try:
        store.publish(large, write)
    except OperationalError as error:
        print(error.exit_code, str(error).splitlines()[0])
    assert Store(store.home).find(step("before")) is not None
    assert store.find(large) is None
    assert not list((store.home / "store" / ".partial").iterdir())
    store.publish(large, lambda out: (out / "small").write_bytes(b"x") and {})
"""
# Twice without room, from one process as from several, and then with it.
RECORD = """
import os, sys
from pathlib import Path
from subgraft.orchestration.tracking.server import Server

home = Path(sys.argv[1]) / "home"
for attempt in range(2):
    try:
        Server(home).client.create_experiment("early")
    except Exception as error:
        print(str(error).splitlines()[0])
os.system(f"mount -o remount,size=20m {sys.argv[1]}")
Server(home).client.create_experiment("late")
print(sorted(path.name for path in home.iterdir()))
"""
# Runs with ever more room, each saying how it ended; then what is in the store is copied to where the test can see it.
RUNS = """
mount -t tmpfs -o size=64k tmpfs "$1"
for size in 300k 1500k 200m; do
    mount -o remount,size=$size tmpfs "$1"
    until
        "$2" -m subgraft run "$3" >"$4/$size.txt" 2>&1
        code=$?
        ! grep -q "$5" "$4/$size.txt"
    do :; done
    echo "$size $code"
done
cp -r "$1/home/store" "$4/"
"""


def alone(script: str, *arguments: str, **environment: str) -> str:
    """What a shell script prints in a namespace of its own; the test is skipped where there is none to be had."""
    probe = subprocess.run([*ALONE, "true"], capture_output=True, text=True, check=False)
    if probe.returncode != 0:
        pytest.skip(f"a full disk needs a mount, which is not permitted here: {probe.stderr.strip()}")
    ended = subprocess.run(
        [*ALONE, script, "sh", *arguments],
        capture_output=True,
        text=True,
        timeout=800,
        check=False,
        env=os.environ | environment,
    )
    assert ended.returncode == 0, ended.stderr
    return ended.stdout


def test_a_full_disk_is_reported_and_the_last_good_state_remains(tmp_path: Path) -> None:
    (tmp_path / "tiny").mkdir()
    said = alone(MOUNT, "2m", str(tmp_path / "tiny"), sys.executable, "-c", PUBLISH, str(tmp_path / "tiny"))
    lines = said.splitlines()
    assert len(lines) == 2 and all(line.startswith("1 ") and "no space left" in line for line in lines)
    assert not list((tmp_path / "tiny").iterdir()), "nobody else sees that disk"


def test_tables_of_the_record_are_made_whole_or_not_at_all(tmp_path: Path) -> None:
    (tmp_path / "tiny").mkdir()
    said = alone(MOUNT, "200k", str(tmp_path / "tiny"), sys.executable, "-c", RECORD, str(tmp_path / "tiny"))
    *refused, left = said.splitlines()
    assert len(refused) == 2 and all("disk" in line for line in refused)
    assert left == "['mlflow.db']"


@pytest.mark.ray
@pytest.mark.slow
def test_a_run_on_a_full_disk_carries_on_when_there_is_room(tmp_path: Path) -> None:
    (tmp_path / "tiny").mkdir()
    config = written(tmp_path, CONFIG)
    home = str(tmp_path / "tiny" / "home")
    places = (str(tmp_path / "tiny"), sys.executable, str(config), str(tmp_path))
    said = alone(RUNS, *places, BUSY, SUBGRAFT_HOME=home)
    codes = dict(line.split() for line in said.splitlines())
    assert codes.pop("200m") == "0", (tmp_path / "200m.txt").read_text()
    assert "1" in codes.values(), "there was room for everything: this test showed nothing"
    for size, code in codes.items():
        content = (tmp_path / f"{size}.txt").read_text()
        assert code in ("0", "1") and "Traceback" not in content, content
        assert code == "0" or "no space left" in content.lower(), content


def test_other_failures_are_not_taken_for_a_full_disk() -> None:
    assert not is_full_disk(PermissionError(13, "Permission denied"))
    try:
        try:
            raise OSError(28, "No space left on device")
        except OSError as error:
            raise RuntimeError("saving failed") from error
    except RuntimeError as error:
        assert is_full_disk(error)
