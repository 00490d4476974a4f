"""What a store lists, and what is taken from it: never what somebody needs."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from small_experiments import planned
from subgraft.base.errors import OperationalError
from subgraft.base.locks import Lock
from subgraft.experiments.garbage_collection import in_use, needed_by, remove, surplus
from subgraft.experiments.inventory import UNREADABLE, artifacts, work_directories
from subgraft.interfaces.cli import main
from subgraft.orchestration.store.record import RECORD, Record
from subgraft.orchestration.store.step import Step, in_order
from subgraft.orchestration.store.store import Store
from subgraft.orchestration.tracking.outbox import Outbox, StartRun
from subgraft.orchestration.tracking.tracker import PARENT, Tracker
from subgraft.training.context import Json
from subgraft.training.stage import Stage
from toy_steps import ToyKind, nothing, record_of

LATER = timedelta(minutes=5)


class ToyStage(Stage):
    name: str


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Store:
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    monkeypatch.setenv("SUBGRAFT_HOME", str(tmp_path / "home"))
    return Store(tmp_path / "home")


def publish(store: Store, step: Step, size: int = 1000) -> Step:
    """An artifact, with a finished work directory next to it."""

    def write(out: Path) -> dict[str, Json]:
        (out / "weights").write_bytes(bytes(size))
        return {"fingerprint": "a digest of the contents, as a vocabulary has"}

    store.publish(step, write)
    (store.work(step)).mkdir(parents=True, exist_ok=True)
    (store.work(step) / "events.jsonl").write_text("{}\n")
    return step


def step(store: Store, name: str, **inputs: Step) -> Step:
    return publish(store, Step(ToyKind("corpus", 1, nothing).of(ToyStage(name=name)), name, inputs))


def left(store: Store) -> set[str]:
    return {artifact.name for artifact in artifacts(store.home)}


@contextmanager
def living(store: Store, *uses: Step) -> Iterator[None]:
    """A run that is going on in another process, which has named the steps that it uses."""
    program = (
        "import sys; from pathlib import Path\n"
        "from subgraft.orchestration.tracking.outbox import Outbox, StartRun\n"
        "outbox = Outbox.create(Path(sys.argv[1]))\n"
        "for run in sys.argv[2:]: outbox.append(StartRun(run, None, 'demo', run, {}, {}, 1))\n"
        "print('ready', flush=True); sys.stdin.read()"
    )
    command = [sys.executable, "-c", program, str(store.home / "tracking"), PARENT, *(use.fingerprint for use in uses)]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None and process.stdout.readline() == "ready\n"
        yield
    finally:
        process.communicate()


def test_what_is_not_kept_goes_with_its_work_directory(store: Store) -> None:
    first = step(store, "first")
    selected = step(store, "kept", corpus=first)
    other = step(store, "other")
    (store.work(other) / "checkpoint").write_bytes(bytes(5000))
    unfinished = store.home / "work" / "ab12"
    unfinished.mkdir()
    (unfinished / "checkpoint").write_bytes(bytes(7))

    result = surplus(store.home, needed_by(selected))
    assert [one.name for one in result.artifacts] == ["other"]
    size = sum(path.stat().st_size for folder in (store.path(other), store.work(other)) for path in folder.iterdir())
    assert result.size == size > 6000
    assert left(store) == {"first", "kept", "other"}, "nothing is done yet"

    assert remove(store.home, result) == size
    assert left(store) == {"first", "kept"} and store.find(other) is None
    assert not store.work(other).exists() and store.work(selected).exists() and unfinished.exists()
    assert not list((store.home / "store" / ".partial").iterdir())
    assert [one.finished for one in work_directories(store.home)].count(False) == 1
    assert remove(store.home, result) == 0, "what has gone frees nothing"


def test_what_a_run_names_that_begins_during_a_collection_stays(store: Store) -> None:
    named, other = step(store, "named"), step(store, "other")
    old(store, named, other)
    result = surplus(store.home, set())
    assert len(result.artifacts) == 2
    with living(store, named):
        remove(store.home, result)
        assert left(store) == {"named"}
    assert store.find(named) is not None


def test_a_collection_takes_nothing_more_once_a_run_begins(store: Store) -> None:
    old(store, step(store, "one"), step(store, "two"))
    result = surplus(store.home, set())
    with living(store):
        assert remove(store.home, result) == 0
        assert left(store) == {"one", "two"}
    assert remove(store.home, result) > 0 and left(store) == set()


def test_what_is_named_between_the_look_and_the_rename_is_put_back(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The moment is chosen here: a run names it while the artifact is being renamed."""
    wanted = step(store, "wanted")
    old(store, wanted)
    result, rename = surplus(store.home, set()), Path.rename
    begun: list[Outbox] = []

    def renamed(path: Path, target: Path) -> Path:
        if path == store.path(wanted) and not begun:
            begun.append(Outbox.create(store.home / "tracking"))
            for name in (PARENT, wanted.fingerprint):
                begun[0].append(StartRun(name, None, "demo", name, {}, {}, 1))
        return rename(path, target)

    monkeypatch.setattr(Path, "rename", renamed)
    assert remove(store.home, result) < sum(one.size for one in result.artifacts)
    assert store.find(wanted) is not None
    begun[0].remove()


def test_where_the_clock_went_back_since_a_run_began_everything_stays(store: Store) -> None:
    """What another run finishes from then on looks older than the run that may read it."""
    old(store, step(store, "made since"))
    with living(store, Step(ToyKind("corpus", 1, nothing).of(ToyStage(name="of the run")), "of the run")):
        assert len(surplus(store.home, set()).artifacts) == 1
        (claim,) = (store.home / "tracking").glob("*.claim")
        ahead = time.time() + 3600
        os.utime(claim, (ahead, ahead))
        assert surplus(store.home, set()).artifacts == ()


def old(store: Store, *steps: Step) -> None:
    """As if they had been made an hour ago."""
    for one in steps:
        path = store.path(one) / RECORD
        finished = (datetime.now(UTC) - timedelta(hours=1)).isoformat(timespec="seconds")
        path.write_text(replace(Record.from_json(path.read_text()), finished=finished).to_json())


def test_what_is_young_stays(store: Store) -> None:
    step(store, "young")
    now = datetime.now(UTC)
    assert surplus(store.home, set(), now - LATER).artifacts == ()
    assert len(surplus(store.home, set(), now + LATER).artifacts) == 1


def test_a_step_that_a_living_process_is_at_is_left_alone(store: Store) -> None:
    busy, idle = step(store, "busy"), step(store, "idle")
    claim = Lock.take(store.home / "work" / f"{busy.fingerprint}.claim")
    result = surplus(store.home, set())
    assert result.claimed == ("busy",) and [one.name for one in result.artifacts] == ["idle"]
    late = Lock.take(store.home / "work" / f"{idle.fingerprint}.claim")  # after it was found
    assert remove(store.home, result) == 0 and left(store) == {"busy", "idle"}
    for each in (claim, late):
        assert each is not None
        each.release()
    assert remove(store.home, surplus(store.home, set())) > 0 and left(store) == set()


def test_what_a_living_run_uses_stays_and_what_was_finished_meanwhile(store: Store) -> None:
    used, other = step(store, "used"), step(store, "other")
    _make_older(store, used)
    _make_older(store, other)
    with living(store, used):
        step(store, "new")
        assert [one.name for one in surplus(store.home, set()).artifacts] == ["other"]
    # The process is gone, but what it noted has not been delivered: its files are still to be sent.
    assert {one.name for one in surplus(store.home, set()).artifacts} == {"other", "new"}
    with living(store), pytest.raises(OperationalError, match="a run is just beginning"):
        surplus(store.home, set())


def _make_older(store: Store, made: Step) -> None:
    """As if it had been finished an hour ago; its record is written again, with the digest of its text."""
    path = store.path(made) / RECORD
    record = Record.from_json(path.read_text())
    earlier = datetime.fromisoformat(record.finished) - timedelta(hours=1)
    path.write_text(replace(record, finished=earlier.isoformat()).to_json())


def test_a_dead_runs_claim_is_not_a_claim(store: Store) -> None:
    step(store, "any")
    outbox = Outbox.create(store.home / "tracking")
    outbox.append(StartRun(PARENT, None, "demo", "run", {}, {}, 1))
    outbox.keep()
    assert in_use(store.home).since is None
    assert len(surplus(store.home, set()).artifacts) == 1


def test_a_damaged_record_is_listed_and_removed(store: Store) -> None:
    damaged = step(store, "damaged")
    (store.path(damaged) / "record.json").write_text("{")
    assert left(store) == {UNREADABLE}
    assert remove(store.home, surplus(store.home, {"0" * 64})) > 1000


FOREIGN = [
    b"[1]\n",
    b"[" * 100_000 + b"\n",
    b'{"kind": [1]}\n{"kind": "SetTags", "run": 1, "tags": [1]}\n{"run": {"\\ud800": 1}, "directory": [1]}\n\xff\n',
    b'{"text": [1], "tokenizer": {}}',
    b'{"stage": 1, "name": [1], "record_sha256": ""}',
]


@pytest.mark.parametrize("content", FOREIGN, ids=["list", "nested", "operations", "encoded", "record"])
def test_foreign_content_of_any_file_does_not_stop_a_collection(store: Store, content: bytes) -> None:
    made = step(store, "made")
    files = ("tracking/a.jsonl", "tracking/a.sent", "encoded/a/record.json", "store/toy/0123/record.json")
    for file in (*files, f"work/{made.fingerprint}/events.jsonl"):
        (store.home / file).parent.mkdir(parents=True, exist_ok=True)
        (store.home / file).write_bytes(content)
    assert made.fingerprint in {one.fingerprint for one in surplus(store.home, set()).artifacts}
    (left_behind,) = Outbox.left_behind(store.home / "tracking")
    assert left_behind.delivered().offset == 0
    assert [type(operation) for operation, _ in left_behind.read(0)] == []
    left_behind.keep()


def test_a_removal_that_was_killed_is_swept(store: Store) -> None:
    away = store.home / "store" / ".partial" / "removed-0123-4567"
    away.mkdir(parents=True)
    (away / "weights").write_text("")
    store.sweep()
    assert not away.exists()


def test_the_commands_list_first_and_remove_when_asked(
    store: Store, repository: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    config = repository / "configs" / "quickstart.yaml"
    steps = in_order([planned(config).report])
    of_another = next(one for one in steps if one.name == "finetune pretrain-finetune seed 2")
    for each in in_order([of_another]):
        publish(store, each)
    tracker = Tracker(store, "demo", print, name="monday")
    tracker.cached(of_another, record_of(store, of_another))
    assert tracker.close()

    assert main(["store", "list"]) == 0
    listed = capsys.readouterr().out
    (line,) = [line for line in listed.splitlines() if "seed 2" in line]
    assert line.startswith("finetune") and of_another.fingerprint[:12] in line and line.rstrip().endswith("monday")

    before = left(store)
    keep = ["store", "gc", "--keep", str(config), "seeds=[1]"]
    assert main(keep) == 0
    message = capsys.readouterr().out
    assert "1 artifacts and 1 finished work directories would be removed" in message and "--apply" in message
    assert left(store) == before
    assert main([*keep, "--older-than", "1", "--apply"]) == 0
    assert left(store) == before, "it is of today"
    assert main([*keep, "--apply"]) == 0
    assert before - left(store) == {of_another.name}
    assert main([*keep[:-1], "--apply"]) == 0
    assert "removed 0 artifacts" in capsys.readouterr().out


@pytest.mark.parametrize("words", [["seeds=[1]"], ["absent"], ["absent.yaml"]])
def test_nothing_is_removed_on_a_mistake(store: Store, words: list[str]) -> None:
    step(store, "any")
    assert main(["store", "gc", "--apply", "--keep", *words]) == 2
    assert left(store) == {"any"}
