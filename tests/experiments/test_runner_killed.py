"""A run whose driver dies: nothing of it goes on working, and the next run carries on."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from subgraft.orchestration.store.step import Step
from subgraft.orchestration.store.store import Store

pytestmark = pytest.mark.ray

DRIVER = """
import os, signal, sys, time
from pathlib import Path
from subgraft.config.runtime import Runtime
from subgraft.orchestration.execution.runner import run
from subgraft.orchestration.store.step import Step
from subgraft.orchestration.store.store import Store
from subgraft.training.stage import Stage

class Counting(Stage):
    stage_name = "count"
    revision = 1

    steps: int = 60

    def run(self, inputs, out, context):
        return count(self, out, context)

def count(stage, out, context):
    checkpoint = context.work / "checkpoint"
    done = int(checkpoint.read_text()) if checkpoint.exists() else 0
    (context.work / f"began-at-{done}").touch()
    while done < stage.steps:
        done += 1
        time.sleep(0.1)
        (context.work / "new").write_text(str(done))
        (context.work / "new").replace(checkpoint)
        (Path(os.environ["BEATS"]) / str(os.getpid())).write_text(str(time.time()))
    (out / "began").write_text(" ".join(sorted(path.name for path in context.work.glob("began-at-*"))))
    return {"steps": done}

def step():
    import killed_driver  # by its name, so that Ray's processes find the stage
    return Step(killed_driver.Counting(), "counting")

if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell that runs tests in the background ignores it
    run(Store(Path(sys.argv[1])), [step()], Runtime())
"""


@pytest.fixture
def driver(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[], subprocess.Popen[bytes]]:
    """Starts the driver, as a user's shell would: in a process group of its own."""
    (tmp_path / "killed_driver.py").write_text(DRIVER)
    (tmp_path / "beats").mkdir()
    monkeypatch.setenv("PYTHONPATH", str(tmp_path), prepend=os.pathsep)
    monkeypatch.setenv("BEATS", str(tmp_path / "beats"))
    monkeypatch.syspath_prepend(str(tmp_path))
    command = [sys.executable, str(tmp_path / "killed_driver.py"), str(tmp_path / "home")]
    return lambda: subprocess.Popen(command, start_new_session=True, stderr=subprocess.DEVNULL)


@pytest.fixture
def step(driver: object, monkeypatch: pytest.MonkeyPatch) -> Step:
    monkeypatch.delitem(sys.modules, "killed_driver", raising=False)
    import killed_driver  # type: ignore[import-not-found]

    made = killed_driver.step()
    assert isinstance(made, Step)
    return made


def wait_for_checkpoint(work: Path, least: int) -> None:
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        if (work / "checkpoint").exists() and int((work / "checkpoint").read_text()) >= least:
            return
        time.sleep(0.05)
    raise AssertionError("the step never got so far")


def last_beat(tmp_path: Path) -> float:
    return max(float(path.read_text() or 0) for path in (tmp_path / "beats").iterdir())


@pytest.mark.slow
def test_after_a_kill_the_next_run_carries_on(
    driver: Callable[[], subprocess.Popen[bytes]], step: Step, tmp_path: Path
) -> None:
    store = Store(tmp_path / "home")
    process = driver()
    wait_for_checkpoint(store.work(step), 5)
    process.send_signal(signal.SIGKILL)
    killed = time.time()
    process.wait()
    again = driver()
    assert again.wait(timeout=120) == 0
    beats = [float(path.read_text()) for path in (tmp_path / "beats").iterdir()]
    assert len(beats) == 2 and min(beats) - killed < 5.0, "the orphaned task went on"
    began = (store.artifact(step) / "began").read_text().split()
    assert began[0] == "began-at-0" and len(began) == 2 and int(began[1].rpartition("-")[2]) >= 5


@pytest.mark.slow
@pytest.mark.parametrize("sent", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupt_ends_everything_at_once_and_the_next_run_carries_on(
    driver: Callable[[], subprocess.Popen[bytes]], step: Step, tmp_path: Path, sent: signal.Signals
) -> None:
    """SIGTERM is what `timeout` sends, by which a run is done in pieces."""
    store = Store(tmp_path / "home")
    process = driver()
    wait_for_checkpoint(store.work(step), 3)
    process.send_signal(sent)
    interrupted = time.time()
    assert process.wait(timeout=30) != 0
    time.sleep(1.0)
    assert last_beat(tmp_path) - interrupted < 2.0
    assert store.find(step) is None
    done = int((store.work(step) / "checkpoint").read_text())
    assert driver().wait(timeout=120) == 0
    began = (store.artifact(step) / "began").read_text().split()
    assert began == sorted(["began-at-0", f"began-at-{done}"])
