"""Plans executed on a real Ray, with small stages of this module."""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
import ray

from subgraft.base.errors import OperationalError, UserError
from subgraft.config.runtime import Runtime
from subgraft.orchestration.execution.cluster import cluster
from subgraft.orchestration.execution.runner import run
from subgraft.orchestration.execution.worker import TRACEBACK
from subgraft.orchestration.store.events import Metrics, Observer, Progress, Warned
from subgraft.orchestration.store.record import Record
from subgraft.orchestration.store.step import Step
from subgraft.orchestration.store.store import Store
from subgraft.subwords.vocabulary.learning_errors import TooLargeError, too_large
from subgraft.training.context import Context, Json
from subgraft.training.stage import Stage
from toy_steps import ToyKind

pytestmark = pytest.mark.ray


class ToyStage(Stage):
    text: str = ""
    seconds: float = 0.0
    begun: str = ""


def write(recipe: ToyStage, inputs: Mapping[str, Path], out: Path, context: Context) -> dict[str, Json]:
    """Concatenate the inputs and the recipe's text."""
    if recipe.begun:
        Path(recipe.begun).touch()
    parts = [(inputs[role] / "text").read_text() for role in sorted(inputs)]
    for step in range(1, 4):
        context.metrics(step, {"loss": 1.0 / step})
        context.progress(step, 3, "steps")
    time.sleep(recipe.seconds)
    (out / "text").write_text("".join(parts) + recipe.text)
    return {"process": os.getpid(), "threads": os.environ["OMP_NUM_THREADS"]}


def meet(recipe: ToyStage, inputs: Mapping[str, Path], out: Path, context: Context) -> dict[str, Json]:
    """Wait for another step of this stage to be running too."""
    (Path(recipe.text) / out.name).touch()
    deadline = time.monotonic() + 60
    while len(list(Path(recipe.text).iterdir())) < 2:
        if time.monotonic() > deadline:
            raise RuntimeError("nobody came")
        time.sleep(0.05)
    return {}


def mistake(recipe: ToyStage, inputs: Mapping[str, Path], out: Path, context: Context) -> dict[str, Json]:
    """Made once another step has begun, where there is one to wait for."""
    while recipe.begun and not Path(recipe.begun).exists():
        time.sleep(0.05)
    raise UserError("the corpus is empty", where="train.en", hint="give another")


def ask_for_too_much(recipe: ToyStage, inputs: Mapping[str, Path], out: Path, context: Context) -> dict[str, Json]:
    raise too_large(requested=140, possible=120)


def crash(recipe: ToyStage, inputs: Mapping[str, Path], out: Path, context: Context) -> dict[str, Json]:
    (context.work / "checkpoint").write_text("kept")
    return {"never": 1 / 0}


def die(recipe: ToyStage, inputs: Mapping[str, Path], out: Path, context: Context) -> dict[str, Json]:
    os._exit(1)


def count_attempts(recipe: ToyStage, inputs: Mapping[str, Path], out: Path, context: Context) -> dict[str, Json]:
    attempts = context.work / "attempts"
    attempts.write_text((attempts.read_text() if attempts.exists() else "") + "x")
    if len(attempts.read_text()) < 2:
        os._exit(1)
    (out / "attempts").write_text(attempts.read_text())
    return {}


def together(recipe: ToyStage, inputs: Mapping[str, Path], out: Path, context: Context) -> dict[str, Json]:
    """Sum the ranks over the worker group."""
    import torch
    import torch.distributed as distributed

    total = torch.tensor([distributed.get_rank() + 1.0])
    distributed.all_reduce(total)
    context.metrics(1, {"total": float(total)})
    if distributed.get_rank() == 0:
        (out / "total").write_text(str(float(total)))
    if recipe.text.startswith("/") and distributed.get_rank() == 1 and not Path(recipe.text).exists():
        raise UserError("rank 1 misses a file", where=recipe.text)
    return {"rank": distributed.get_rank(), "world": distributed.get_world_size(), "threads": torch.get_num_threads()}


WRITE, MISTAKE, CRASH = ToyKind("write", 1, write), ToyKind("mistake", 1, mistake), ToyKind("crash", 1, crash)
MEET = ToyKind("meet", 1, meet)
TOO_MUCH = ToyKind("too much", 1, ask_for_too_much)
DIE, ATTEMPTS = ToyKind("die", 1, die), ToyKind("attempts", 1, count_attempts)
TOGETHER = ToyKind("together", 1, together, distributed=True)


class Notes(Observer):
    """An observer that writes everything down."""

    def __init__(self) -> None:
        self.heard: list[tuple[str, str]] = []
        self.values: list[tuple[int, float]] = []
        self.errors: list[BaseException] = []

    def of(self, name: str) -> list[str]:
        return [what for what, who in self.heard if who == name]

    def cached(self, step: Step, record: Record) -> None:
        self.heard.append(("cached", step.name))

    def started(self, step: Step) -> None:
        self.heard.append(("started", step.name))

    def progress(self, step: Step, event: Progress) -> None:
        self.heard.append(("progress", step.name))

    def metrics(self, step: Step, event: Metrics) -> None:
        self.values.extend((event.step, value) for value in event.values.values())

    def warned(self, step: Step, event: Warned) -> None:
        self.heard.append(("warned", step.name))

    def finished(self, step: Step, record: Record) -> None:
        self.heard.append(("finished", step.name))

    def failed(self, step: Step, error: BaseException) -> None:
        self.heard.append(("failed", step.name))
        self.errors.append(error)


@pytest.fixture(scope="module")
def ray_is_up() -> Iterator[None]:
    """One local cluster with two cores for this module's tests."""
    import ray

    with pytest.MonkeyPatch.context() as environment:
        environment.delenv("RAY_ADDRESS", raising=False)
        # Ray's processes import this module's stages; pytest's own path does not reach them.
        here = Path(__file__).parent
        environment.setenv("PYTHONPATH", f"{here}{os.pathsep}{here.parents[1] / 'support'}", prepend=os.pathsep)
        with cluster(Runtime()):
            assert ray.is_initialized()
            yield
        assert not ray.is_initialized()


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(tmp_path / "home")


def step(stage: ToyKind, name: str, inputs: dict[str, Step] | None = None, **recipe: Any) -> Step:
    return Step(stage.of(ToyStage(**{"text": name, **recipe})), name, inputs or {})


def test_a_diamond_is_made_once_and_then_cached(ray_is_up: None, store: Store) -> None:
    top = step(WRITE, "top")
    left = step(WRITE, "left", {"top": top})
    right = step(WRITE, "right", {"top": top})
    bottom = step(WRITE, "bottom", {"a": left, "b": right})
    notes = Notes()
    records = run(store, [bottom], Runtime(), [notes])
    assert (store.artifact(bottom) / "text").read_text() == "toplefttoprightbottom"
    assert notes.of("left")[0] == "started" and notes.of("left")[-1] == "finished"
    assert "progress" in notes.of("left")
    assert sorted(notes.values) == sorted([(1, 1.0), (2, 0.5), (3, 1.0 / 3)] * 4)
    summary = records[left.fingerprint].summary
    assert summary["process"] != os.getpid() and summary["threads"] == "1"
    again = Notes()
    assert run(store, [bottom], Runtime(), [again]) == records
    assert again.heard == [("cached", name) for name in ("top", "left", "right", "bottom")]
    assert not [path for path in store.work(left).iterdir() if path.name != "events.jsonl"]


def test_what_a_collection_takes_before_it_was_named_is_made_again(ray_is_up: None, store: Store) -> None:
    class Collected(Notes):
        def cached(self, step: Step, record: Record) -> None:
            super().cached(step, record)
            if store.path(step).exists() and step.name == "top":
                shutil.rmtree(store.path(step))

    top = step(WRITE, "top")
    bottom = step(WRITE, "bottom", {"top": top})
    run(store, [top], Runtime())
    notes = Collected()
    run(store, [bottom], Runtime(), [notes])
    assert (store.artifact(bottom) / "text").read_text() == "topbottom"
    assert notes.of("top")[0] == "cached" and notes.of("top")[-1] == "finished"


@pytest.mark.skipif((os.cpu_count() or 1) < 2, reason="needs two cores")
def test_independent_steps_run_side_by_side(ray_is_up: None, store: Store, tmp_path: Path) -> None:
    (tmp_path / "meeting").mkdir()
    both = [step(MEET, name, text=str(tmp_path / "meeting"), seconds=seconds) for name, seconds in (("a", 1), ("b", 2))]
    run(store, both, Runtime())


def test_a_mistake_comes_through_and_what_runs_is_let_finish(ray_is_up: None, store: Store, tmp_path: Path) -> None:
    slow = step(WRITE, "slow", seconds=2.0, begun=str(tmp_path / "begun"))
    wrong = step(MISTAKE, "wrong", begun=str(tmp_path / "begun"))
    never = step(WRITE, "never", {"wrong": wrong})
    notes = Notes()
    with pytest.raises(UserError, match="the corpus is empty") as caught:
        run(store, [slow, never], Runtime(), [notes])
    assert type(caught.value) is UserError
    assert (caught.value.where, caught.value.hint, caught.value.exit_code) == ("train.en", "give another", 2)
    assert store.find(slow) is not None
    assert notes.of("never") == [] and notes.of("wrong")[-1] == "failed"


def test_a_mistake_of_a_kind_of_its_own_comes_through(ray_is_up: None, store: Store) -> None:
    with pytest.raises(TooLargeError, match="120 is the largest it can give") as caught:
        run(store, [step(TOO_MUCH, "vocabulary")], Runtime(), [])
    assert (caught.value.exit_code, caught.value.where) == (2, "")


def test_after_a_failure_nothing_new_begins(ray_is_up: None, store: Store) -> None:
    queued = [step(WRITE, f"queued {number}", seconds=1.5) for number in range(8)]
    notes = Notes()
    with pytest.raises(UserError):
        run(store, [step(MISTAKE, "wrong"), *queued], Runtime(), [notes])
    made = [name for what, name in notes.heard if what == "finished"]
    assert len(made) < 4, "what had not begun was not begun"
    assert [what for what, _ in notes.heard].count("failed") == 1
    assert sum(store.find(each) is not None for each in queued) == len(made)


def test_what_this_machine_can_never_start_is_refused(ray_is_up: None, store: Store) -> None:
    with pytest.raises(UserError, match="summed needs 999 CPUs") as caught:
        run(store, [step(TOGETHER, "summed")], Runtime(workers=999))
    assert "runtime.workers" in caught.value.hint
    with pytest.raises(UserError, match="GPUs, but the cluster has"):
        run(store, [step(TOGETHER, "summed")], Runtime(gpus_per_worker=99))


def test_a_cluster_that_would_have_to_grow_is_reported(
    ray_is_up: None, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Impatient(Notes):
        def warned(self, step: Step, event: Warned) -> None:
            raise KeyboardInterrupt(event.line)

    monkeypatch.setattr("subgraft.orchestration.execution.runner.PATIENCE_SECONDS", 0.5)
    with pytest.raises(KeyboardInterrupt, match="waits for a machine with 1 CPUs and 1 GPUs"):
        run(store, [step(TOGETHER, "summed")], Runtime(gpus_per_worker=1), [Impatient()], address="of a cluster")


def test_a_crash_is_reported_with_its_traceback_and_keeps_the_checkpoint(ray_is_up: None, store: Store) -> None:
    crashing = step(CRASH, "crashing")
    with pytest.raises(OperationalError, match="ZeroDivisionError: division by zero") as caught:
        run(store, [crashing], Runtime())
    assert caught.value.exit_code == 1
    traceback = store.work(crashing) / TRACEBACK
    assert str(traceback) in caught.value.hint and "never" in traceback.read_text()
    assert (store.work(crashing) / "checkpoint").read_text() == "kept"
    assert store.find(crashing) is None


def test_a_process_that_dies_is_reported_or_tried_again(ray_is_up: None, store: Store) -> None:
    with pytest.raises(OperationalError, match="its process died"):
        run(store, [step(DIE, "dying")], Runtime())
    stubborn = step(ATTEMPTS, "stubborn")
    run(store, [stubborn], Runtime(max_failures=1))
    assert (store.artifact(stubborn) / "attempts").read_text() == "xx"


def test_a_warm_cluster_is_used_as_it_is(ray_is_up: None, store: Store) -> None:
    before = ray.get_runtime_context().get_job_id()
    for name in ("first", "second"):
        run(store, [step(WRITE, name)], Runtime())
    assert ray.get_runtime_context().get_job_id() == before, "a launch starts no new Ray"


def test_a_damaged_input_is_made_again(ray_is_up: None, store: Store) -> None:
    top = step(WRITE, "top")
    run(store, [top], Runtime())
    (store.path(top) / "text").write_text("pot")
    bottom = step(WRITE, "bottom", {"top": top})
    said: list[str] = []
    run(Store(store.home, said.append), [bottom], Runtime())
    assert "text is not as recorded" in said[0]
    assert (store.artifact(bottom) / "text").read_text() == "topbottom"


def test_several_workers_go_through_ray_train(ray_is_up: None, store: Store) -> None:
    """One group after the other, as each takes all cores."""
    groups, notes = [step(TOGETHER, "one"), step(TOGETHER, "other")], Notes()
    half = int(ray.cluster_resources()["CPU"]) // 2
    records = run(store, groups, Runtime(workers=2, cpus_per_step=half), [notes])
    for group in groups:
        assert (store.artifact(group) / "total").read_text() == "3.0"
        assert records[group.fingerprint].summary == {"rank": 0, "world": 2, "threads": half}
    assert notes.values == [(1, 3.0)] * 2, "only rank 0 reports"
    events = [(what, who) for what, who in notes.heard if what in ("started", "finished")]
    first = events[0][1]
    assert events.index(("finished", first)) == 1 and len(events) == 4


@pytest.mark.slow
def test_a_mistake_on_one_worker_comes_through_and_can_be_mended(ray_is_up: None, store: Store, tmp_path: Path) -> None:
    summed = step(TOGETHER, "summed", text=str(tmp_path / "wanted"))
    with pytest.raises(UserError, match="rank 1 misses a file"):
        run(store, [summed], Runtime(workers=2))
    assert store.find(summed) is None
    (tmp_path / "wanted").touch()
    run(store, [summed], Runtime(workers=2))
    assert (store.artifact(summed) / "total").read_text() == "3.0"


def test_a_cached_plan_does_not_start_ray(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    made = step(WRITE, "made")
    store.publish(made, lambda out: {})
    monkeypatch.setenv("RAY_ADDRESS", "127.0.0.1:1")  # where nothing answers
    run(store, [made], Runtime())
