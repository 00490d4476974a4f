"""Workers killed at random steps: the same examples in the same order, the same losses, the same weights."""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest

from subgraft.base.errors import OperationalError
from subgraft.config.runtime import Runtime
from subgraft.orchestration.execution.cluster import cluster
from subgraft.orchestration.execution.runner import run
from subgraft.orchestration.store.step import Step
from subgraft.orchestration.store.store import Store
from subgraft.training.context import Context, Json
from subgraft.training.stage import Stage
from toy_steps import ToyKind
from traced_training import EXAMPLES, TRACES, by_step, drawn, traced_pretraining

pytestmark = pytest.mark.ray

KILLS = 2


@pytest.fixture(scope="module")
def traces(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Where the workers of this module's own cluster write what they draw."""
    here, folder = Path(__file__).parent, tmp_path_factory.mktemp("traces")
    with pytest.MonkeyPatch.context() as environment:
        environment.delenv("RAY_ADDRESS", raising=False)
        environment.setenv(TRACES, str(folder))
        # Ray's processes import this module's stages; pytest's own path does not reach them.
        environment.setenv("PYTHONPATH", f"{here}{os.pathsep}{here.parent / 'support'}", prepend=os.pathsep)
        with cluster(Runtime()):
            yield folder


@dataclass
class Killer:
    """Kills one worker of a training twice, each time some steps after it began or began again."""

    traces: Path
    checkpoints: Path
    chance: random.Random

    def __post_init__(self) -> None:
        self.recoveries: list[float] = []
        self.epochs: list[int] = []
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def join(self) -> None:
        self._thread.join(timeout=300)
        assert not self._thread.is_alive(), "the training never got so far"

    def _run(self) -> None:
        dead: set[str] = set()
        for _ in range(KILLS):
            wanted = self.chance.randint(3, 12)
            victims = self._drawing(dead, wanted)
            time.sleep(self.chance.random() * 0.03)
            os.kill(int(self.chance.choice(sorted(victims))), signal.SIGKILL)
            killed = time.monotonic()
            dead |= {path.name for path in self.traces.iterdir()}
            self.epochs.append(max(one.epoch for one in drawn(self.traces)))
            self._drawing(dead, 1)
            self.recoveries.append(time.monotonic() - killed)

    def _drawing(self, dead: set[str], least: int) -> list[str]:
        """The processes of the attempt that goes on now, once there is a checkpoint and they have drawn so often."""
        deadline = time.monotonic() + 300
        while time.monotonic() < deadline:
            living = [path for path in self.traces.iterdir() if path.name not in dead]
            if living and list(self.checkpoints.glob("step-*")) and self._drawn(living[0]) >= least:
                return [path.name for path in living]
            time.sleep(0.002)
        raise AssertionError("the training never got so far")

    def _drawn(self, trace: Path) -> int:
        return trace.read_bytes().count(b"\n")


def losses(store: Store, step: Step) -> dict[int, set[float]]:
    """All different losses that were reported for each step."""
    events = [json.loads(line) for line in (store.work(step) / "events.jsonl").read_text().splitlines() if line]
    results: dict[int, set[float]] = {}
    for event in events:
        if "train_loss" in event.get("values", {}):
            results.setdefault(event["step"], set()).add(event["values"]["train_loss"])
    return results


def weights(store: Store, step: Step) -> dict[str, str]:
    """Digests of a model's weights."""
    record = store.find(step)
    assert record is not None
    results = {entry.path: entry.sha256 for entry in record.files if entry.path.endswith(".safetensors")}
    assert results
    return results


def clear(folder: Path) -> None:
    for path in folder.iterdir():
        path.unlink()


def report_and_die(recipe: Failing, inputs: Mapping[str, Path], out: Path, context: Context) -> dict[str, Json]:
    """Have Ray Train write its snapshot and a checkpoint of its own, and fail until this has happened often enough."""
    import ray.train

    attempts = len(list(context.work.glob("attempt-*")))
    (context.work / f"attempt-{attempts}").mkdir()
    (context.work / "own").mkdir(exist_ok=True)
    (context.work / "own" / "weights").write_text("weights")
    ray.train.report({"attempt": attempts}, checkpoint=ray.train.Checkpoint(str(context.work / "own")))
    if attempts < recipe.failures:
        raise OSError("a disk failed")
    return {"attempts": attempts + 1}


class Failing(Stage):
    failures: int


def remove_checkpoints(snapshot: Path) -> None:
    for path in snapshot.parent.glob("checkpoint_*/"):
        shutil.rmtree(path)


# What happens to Ray Train's snapshot, or to the checkpoint that it names.
SNAPSHOT = "checkpoint_manager_snapshot.json"
SNAPSHOT_DAMAGE: tuple[Callable[[Path], object], ...] = (
    lambda snapshot: os.truncate(snapshot, snapshot.stat().st_size // 2),
    lambda snapshot: os.truncate(snapshot, 0),
    Path.unlink,
    remove_checkpoints,
)


@pytest.mark.slow
def test_what_ray_train_wrote_may_be_damaged_in_any_way(traces: Path, tmp_path: Path) -> None:
    stage = ToyKind("report", 1, report_and_die, distributed=True)
    step = Step(stage.of(Failing(failures=len(SNAPSHOT_DAMAGE))), "reporting")
    store, runtime = Store(tmp_path / "home"), Runtime(zero_stage=0)
    for damage in SNAPSHOT_DAMAGE:
        with pytest.raises(OperationalError, match="a disk failed"):
            run(store, [step], runtime)
        (snapshot,) = store.work(step).rglob(SNAPSHOT)
        damage(snapshot)
    records = run(store, [step], runtime)
    assert records[step.fingerprint].summary == {"attempts": len(SNAPSHOT_DAMAGE) + 1}


@pytest.mark.slow
@pytest.mark.parametrize("workers", [1, 2])
def test_killed_twice_in_an_epoch_a_training_is_the_one_that_was_not(
    workers: int, traces: Path, tmp_path: Path, recovered: Callable[[str, float], None]
) -> None:
    step = traced_pretraining(tmp_path / "corpora")
    straight, killed = Store(tmp_path / "straight"), Store(tmp_path / "killed")
    clear(traces)
    run(straight, [step], Runtime(workers=workers))
    expected = by_step(drawn(traces), workers)

    clear(traces)
    seed = random.SystemRandom().randrange(10**6)
    print(f"seed of the kills: {seed}")
    killer = Killer(traces, killed.work(step) / "checkpoints" / "all", random.Random(seed))
    run(killed, [step], Runtime(workers=workers, max_failures=KILLS, checkpoint_seconds=0.05))
    killer.join()
    result = by_step(drawn(traces), workers)

    assert killer.epochs == [0, 0], "both kills came in the first epoch"
    assert not list(killed.home.rglob(SNAPSHOT)), "ours are the only checkpoints"
    assert len({one.process for one in drawn(traces)}) == workers * (KILLS + 1)
    assert result == expected and all(len(each) == 1 for each in result.values())
    for epoch in range(2):
        seen = [example for ((one, examples),) in result.values() if one == epoch for example in examples]
        assert sorted(set(seen)) == list(range(EXAMPLES))
    curve = losses(killed, step)
    assert curve == losses(straight, step) and all(len(each) == 1 for each in curve.values())
    assert weights(killed, step) == weights(straight, step)
    for seconds in killer.recoveries:
        recovered(f"a worker of {workers} killed: until the training goes on", seconds)
