"""A local Ray is this user's alone: none of its processes answers elsewhere, and nobody else enters its folder."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import psutil
import pytest
import ray

from listening import answering_elsewhere, listening
from small_searches import searchable
from subgraft.base.errors import OperationalError
from subgraft.base.security.local_ray import PREFIX
from subgraft.config.runtime import Runtime
from subgraft.interfaces.cli import main
from subgraft.orchestration.execution.cluster import cluster
from subgraft.orchestration.execution.runner import run
from subgraft.orchestration.store.events import Observer
from subgraft.orchestration.store.step import Step
from subgraft.orchestration.store.store import Store
from subgraft.training.context import Context, Json
from subgraft.training.stage import Stage
from toy_steps import ToyKind

pytestmark = pytest.mark.ray


class Waiting(Stage):
    until: str


def wait_together(recipe: Waiting, inputs: Mapping[str, Path], out: Path, context: Context) -> dict[str, Json]:
    """Join the group's other workers, and wait until a file is there."""
    import torch
    import torch.distributed as distributed

    total = torch.ones(1)
    distributed.all_reduce(total)
    context.metrics(1, {"workers": float(total)})
    deadline = time.monotonic() + 60
    while not Path(recipe.until).exists():
        assert time.monotonic() < deadline
        time.sleep(0.05)
    return {"workers": distributed.get_world_size()}


class Look:
    """What was seen of this process and those below it: what they listen on, what answered, modes of Ray's folder."""

    def __init__(self) -> None:
        self.sockets: set[tuple[str, int]] = set()
        self.answering: list[str] = []
        self.modes: set[int] = set()

    def once(self) -> None:
        new = listening(psutil.Process()) - self.sockets
        self.sockets |= new
        self.answering += answering_elsewhere(new)
        self.modes |= {stat.S_IMODE(folder.stat().st_mode) for folder in ray_folders()}

    @contextmanager
    def repeatedly(self) -> Iterator[None]:
        over = threading.Event()

        def look() -> None:
            while not over.wait(0.2):
                self.once()

        looking = threading.Thread(target=look)
        looking.start()
        try:
            yield
        finally:
            over.set()
            looking.join()

    def check(self) -> None:
        assert len(self.sockets) > 5, "Ray was not looked at"
        assert {address for address, _ in self.sockets} <= {"127.0.0.1", "::ffff:127.0.0.1", "::1"}
        assert self.answering == []
        assert self.modes == {0o700}


class Looking(Observer):
    """An observer that looks when a step reports, and lets it end."""

    def __init__(self, look: Look, until: Path) -> None:
        self._look = look
        self._until = until

    def metrics(self, *_: object) -> None:
        self._look.once()
        self._until.touch()


def ray_folders() -> set[Path]:
    """Those of runs of this process."""
    mine = f"{os.getpid()}/"
    return {path for path in Path(tempfile.gettempdir()).glob(f"{PREFIX}*") if any(path.glob(f"ray/session_*_{mine}"))}


@pytest.fixture(autouse=True)
def surroundings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("MLFLOW_TRACKING_URI", "RAY_ADDRESS"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("SUBGRAFT_HOME", str(tmp_path / "home"))
    # Ray's processes import this module's stage; pytest's own path does not reach them.
    here = Path(__file__).parent
    monkeypatch.setenv("PYTHONPATH", f"{here}{os.pathsep}{here.parents[1] / 'support'}", prepend=os.pathsep)


# A thread gives up references, each in a cycle, from the moment that Ray begins to close until it has closed.
COLLECTS_MEANWHILE = """
import threading, time
import ray
from subgraft.config.runtime import Runtime
from subgraft.orchestration.execution.cluster import cluster

def in_a_cycle():
    found = [ray.put(0)]
    found.append(found)
    return found

def give_up(cycles, worker):
    while worker.connected:
        time.sleep(0.0005)
    while cycles:
        cycles.pop()
        others = [[] for _ in range(200_000)]  # enough of them for a collection
        time.sleep(0.0005)

with cluster(Runtime()):
    cycles = [in_a_cycle() for _ in range(100)]
    thread = threading.Thread(target=give_up, args=(cycles, ray._private.worker.global_worker))
    thread.start()
thread.join()
print("left Ray")
"""


def test_a_thread_may_collect_garbage_while_ray_closes() -> None:
    done = subprocess.run([sys.executable, "-c", COLLECTS_MEANWHILE], capture_output=True, text=True, timeout=120)
    assert (done.returncode, done.stdout) == (0, "left Ray\n"), done.stderr


@pytest.mark.parametrize("dashboard", [pytest.param(False, marks=pytest.mark.slow), True])
def test_two_workers_of_a_run_answer_on_this_machine_only(tmp_path: Path, dashboard: bool) -> None:
    step = Step(
        ToyKind("wait", 1, wait_together, distributed=True).of(Waiting(until=str(tmp_path / "seen"))), "waiting"
    )
    look, said = Look(), list[str]()
    store = Store(tmp_path / "home", said.append)
    records = run(
        store, [step], Runtime(workers=2, zero_stage=0, dashboard=dashboard), [Looking(look, tmp_path / "seen")]
    )
    assert records[step.fingerprint].summary == {"workers": 2}
    look.check()
    assert not ray_folders() and not said, "nothing is left"


def test_a_search_answers_on_this_machine_only(tmp_path: Path) -> None:
    look = Look()
    with look.repeatedly():
        assert main(["search", str(searchable(tmp_path)), "search.trials=1", "search.concurrent=1"]) == 0
    look.check()


def test_logs_of_a_failed_run_stay_and_are_named(tmp_path: Path) -> None:
    said: list[str] = []
    with pytest.raises(OperationalError, match="the disk"), cluster(Runtime(), say=said.append):
        raise OperationalError("the disk failed")
    assert not ray.is_initialized()
    (line,) = said
    logs = Path(line.rpartition(": ")[2])
    assert (logs / "raylet.out").is_file()
