"""Processes that stop without dying (SIGSTOP): the run says which, ends it, and carries on or fails."""

from __future__ import annotations

import math
import os
import signal
import time
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from subgraft.base.errors import OperationalError
from subgraft.config.runtime import Runtime
from subgraft.orchestration.execution.cluster import cluster
from subgraft.orchestration.execution.heartbeat import HEARTBEATS
from subgraft.orchestration.execution.runner import run
from subgraft.orchestration.store.events import Observer, Warned
from subgraft.orchestration.store.step import Step
from subgraft.orchestration.store.store import Store
from subgraft.training.context import Context, Json
from subgraft.training.stage import Stage
from toy_steps import ToyKind

pytestmark = [pytest.mark.ray, pytest.mark.slow, pytest.mark.timeout(600)]

SECONDS = 10.0


class Stopping(Stage):
    """stops: where it is written down that a process has stopped once; it does no second time."""

    stops: str


def _stop_once(recipe: Stopping) -> None:
    if not Path(recipe.stops).exists():
        Path(recipe.stops).write_text(str(os.getpid()))
        os.kill(os.getpid(), signal.SIGSTOP)


def alone(recipe: Stopping, inputs: Mapping[str, Path], out: Path, context: Context) -> dict[str, Json]:
    """A step of one process."""
    _stop_once(recipe)
    return {"process": os.getpid()}


def together(recipe: Stopping, inputs: Mapping[str, Path], out: Path, context: Context) -> dict[str, Json]:
    """A step of a worker group, of which the second worker stops while the first waits for it."""
    import torch.distributed as distributed

    if distributed.get_rank() == 1:
        _stop_once(recipe)
    distributed.barrier()
    return {"world": distributed.get_world_size()}


def computing(recipe: Stage, inputs: Mapping[str, Path], out: Path, context: Context) -> dict[str, Json]:
    """A library's call that lets no other thread of Python run."""
    begun = time.monotonic()
    math.factorial(4_000_000)
    return {"seconds": time.monotonic() - begun}


ALONE, TOGETHER = ToyKind("alone", 1, alone), ToyKind("together", 1, together, distributed=True)


class Warnings(Observer):
    """Collects the warnings."""

    def __init__(self) -> None:
        self.lines: list[str] = []

    def warned(self, step: Step, event: Warned) -> None:
        self.lines.append(event.line)


@pytest.fixture(scope="module", autouse=True)
def ray_is_up() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as environment:
        environment.delenv("RAY_ADDRESS", raising=False)
        # Ray's processes import this module's stages; pytest's own path does not reach them.
        here = Path(__file__).parent
        environment.setenv("PYTHONPATH", f"{here}{os.pathsep}{here.parent / 'support'}", prepend=os.pathsep)
        with cluster(Runtime()):
            yield


def _is_there(pid: int) -> bool:
    return Path(f"/proc/{pid}").exists() and Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"


@pytest.mark.parametrize(("stage", "who"), [(ALONE, "its process"), (TOGETHER, "worker 1 of 2")], ids=["one", "group"])
def test_what_hangs_is_named_and_ended_and_the_step_fails(stage: ToyKind, who: str, tmp_path: Path) -> None:
    step = Step(stage.of(Stopping(stops=str(tmp_path / "stopped"))), "hanging")
    store, warnings, begun = Store(tmp_path / "home"), Warnings(), time.monotonic()
    runtime = Runtime(workers=2 if stage.distributed else 1, heartbeat_timeout=SECONDS)
    with pytest.raises(OperationalError, match=f"{who} .*sent no heartbeat for 10 s and was killed") as caught:
        run(store, [step], runtime, [warnings])
    assert time.monotonic() - begun < 240
    assert (caught.value.exit_code, caught.value.where) == (1, "hanging")
    assert "runtime.heartbeat_timeout" in caught.value.hint
    stopped = int((tmp_path / "stopped").read_text())
    assert len(warnings.lines) == 1 and f"process {stopped} on" in warnings.lines[0]
    assert not _is_there(stopped)
    assert store.find(step) is None


@pytest.mark.parametrize("stage", [ALONE, TOGETHER], ids=["one", "group"])
def test_with_failures_allowed_it_carries_on_and_so_does_a_parallel_step(stage: ToyKind, tmp_path: Path) -> None:
    hanging, parallel = (Step(stage.of(Stopping(stops=str(tmp_path / name))), name) for name in ("hanging", "parallel"))
    (tmp_path / "parallel").touch()
    store, warnings = Store(tmp_path / "home"), Warnings()
    runtime = Runtime(workers=2 if stage.distributed else 1, heartbeat_timeout=SECONDS, max_failures=1)
    run(store, [hanging, parallel], runtime, [warnings])
    assert len(warnings.lines) == 1 and "sent no heartbeat" in warnings.lines[0]
    assert store.find(hanging) is not None and store.find(parallel) is not None
    assert not (store.work(hanging) / HEARTBEATS).exists()


def test_what_computes_without_a_sign_is_left_alone(tmp_path: Path) -> None:
    step = Step(ToyKind("computing", 1, computing).of(Stopping(stops="")), "computing")
    store, warnings = Store(tmp_path / "home"), Warnings()
    records = run(store, [step], Runtime(heartbeat_timeout=SECONDS), [warnings])
    assert records[step.fingerprint].summary["seconds"] > 2 * SECONDS, "it was not silent for long enough"
    assert warnings.lines == []
