"""The store under kills, races and a full disk, with real processes."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from subgraft.errors import OperationalError
from subgraft.experiment.disk import is_full_disk
from subgraft.experiment.step import Step
from subgraft.experiment.store import Store

PROGRAM = """
import sys
from pathlib import Path
from types import SimpleNamespace
from subgraft.settings import Settings
from subgraft.experiment.provenance import Provenance
from subgraft.experiment.step import Step
from subgraft.experiment.store import Store

class Recipe(Settings):
    files: int = 40
    size: int = 20_000

# Not a Stage, which comes with torch: some thirty processes start here.
STEP = Step(SimpleNamespace(name="corpus", revision=1), "everyday", Recipe())

def write(out):
    for number in range(STEP.recipe.files):
        (out / f"{number}.bin").write_bytes(bytes([number]) * STEP.recipe.size)
    (out / "writer").write_text(sys.argv[2])
    return {"files": STEP.recipe.files}

if __name__ == "__main__":
    store = Store(Path(sys.argv[1]))
    print("ready", flush=True)
    sys.stdin.readline()
    record = store.publish(STEP, write, Provenance())
    print(record.digest, flush=True)
"""


@pytest.fixture
def program(tmp_path: Path) -> Path:
    path = tmp_path / "publish_one.py"
    path.write_text(PROGRAM)
    return path


@pytest.fixture
def step(program: Path, monkeypatch: pytest.MonkeyPatch) -> Step:
    monkeypatch.syspath_prepend(str(program.parent))
    monkeypatch.delitem(sys.modules, "publish_one", raising=False)
    import publish_one

    return publish_one.STEP


def start(program: Path, home: Path, name: str) -> subprocess.Popen[str]:
    """A publishing process that is ready and waits for a line."""
    process = subprocess.Popen(
        [sys.executable, str(program), str(home), name],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout.readline() == "ready\n"
    return process


def publish(program: Path, home: Path, name: str) -> float:
    """Publish without trouble; the seconds it took, without the process's end."""
    process = start(program, home, name)
    started = time.monotonic()
    process.stdin.write("go\n")
    process.stdin.flush()
    assert process.stdout.readline()
    seconds = time.monotonic() - started
    process.communicate(timeout=60)
    assert process.returncode == 0
    return seconds


def test_a_kill_at_any_moment_leaves_a_whole_artifact_or_none(program: Path, step: Step, tmp_path: Path) -> None:
    duration = publish(program, tmp_path / "calm", "calm")
    moments = random.Random(0)
    outcomes = []
    for attempt in range(10):
        home = tmp_path / f"home{attempt}"
        process = start(program, home, "killed")
        process.stdin.write("go\n")
        process.stdin.flush()
        time.sleep(moments.random() * duration)
        process.send_signal(signal.SIGKILL)
        process.wait(timeout=30)
        problems: list[str] = []
        found = Store(home, problems.append).find(step)
        outcomes.append(found is not None)
        assert not problems, "a kill must not leave anything at the final place that does not verify"
        publish(program, home, "again")
        assert Store(home).find(step) is not None
        assert not list((home / "store" / ".partial").iterdir()), "the dead writer's files are swept"
    assert not all(outcomes), "no kill came before the end: this test showed nothing"


def test_of_eight_writers_exactly_one_wins(program: Path, step: Step, tmp_path: Path) -> None:
    home = tmp_path / "home"
    writers = [start(program, home, f"writer{number}") for number in range(8)]
    for writer in writers:
        writer.stdin.write("go\n")
        writer.stdin.flush()
    digests = {writer.communicate(timeout=120)[0].strip() for writer in writers}
    assert [writer.returncode for writer in writers] == [0] * 8
    record = Store(home).find(step)
    assert digests == {record.digest}, "every writer was told of the same artifact"
    assert not list((home / "store" / ".partial").iterdir())
    assert not (home / "quarantine").exists()


def test_a_living_writer_is_not_swept(program: Path, step: Step, tmp_path: Path) -> None:
    store = Store(tmp_path / "home")

    def write(out: Path) -> dict[str, object]:
        Store(store.home).sweep()
        publish(program, store.home, "other")
        (out / "late").touch()
        return {}

    record = store.publish(step, write)
    assert "late" not in [entry.path for entry in record.files]


@pytest.fixture
def tiny_disk(tmp_path: Path):
    """A file system of 2 MiB, where this user may mount one."""
    place = tmp_path / "tiny"
    place.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=2m", "tmpfs", str(place)], capture_output=True, text=True, check=False
    )
    if mounted.returncode != 0:
        pytest.skip(f"a full disk needs a mount, which is not permitted here: {mounted.stderr.strip()}")
    yield place
    subprocess.run(["umount", "--lazy", str(place)], check=True)


def test_a_full_disk_is_told_and_the_last_good_state_kept(tiny_disk: Path, step: Step) -> None:
    store = Store(tiny_disk / "home")
    store.publish(step, lambda out: (out / "small").write_bytes(b"x") and {})
    larger = Step(step.stage, "larger", step.recipe.model_copy(update={"size": 1}))
    with pytest.raises(OperationalError, match="no space left") as caught:
        store.publish(larger, lambda out: (out / "large").write_bytes(os.urandom(4 << 20)) and {})
    assert caught.value.exit_code == 1
    assert Store(tiny_disk / "home").find(step) is not None
    assert store.find(larger) is None
    assert not list((store.home / "store" / ".partial").iterdir())
    store.publish(larger, lambda out: (out / "small").write_bytes(b"x") and {})


def test_a_full_disk_that_another_library_reports(tiny_disk: Path, step: Step) -> None:
    import numpy as np
    from safetensors.numpy import save_file

    def write(out: Path) -> dict[str, object]:
        save_file({"weight": np.ones(1 << 20, np.float32)}, out / "model.safetensors")
        return {}

    with pytest.raises(OperationalError, match="no space left"):
        Store(tiny_disk / "home").publish(step, write)


def test_other_failures_are_not_taken_for_a_full_disk() -> None:
    assert not is_full_disk(PermissionError(13, "Permission denied"))
    try:
        try:
            raise OSError(28, "No space left on device")
        except OSError as error:
            raise RuntimeError("saving failed") from error
    except RuntimeError as error:
        assert is_full_disk(error)
