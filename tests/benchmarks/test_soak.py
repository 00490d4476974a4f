"""The soak draws the same turns again, its checks notice what is amiss, and a short one passes them."""

from __future__ import annotations

import json
import shutil
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

import soak_checks as checks
from soak import ERRANDS, Turn
from soak_commands import KILLS, Death, seconds_until_none, subgraft
from subgraft.orchestration.store.step import Step
from subgraft.orchestration.store.store import Store
from subgraft.orchestration.tracking.server import Server
from subgraft.training.stage import Stage
from toy_steps import ToyKind, nothing


class Named(Stage):
    """Of an artifact that is a file."""

    name: str


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """A home with three artifacts and a record of runs."""
    store = Store(tmp_path / "home")
    for name in ("one", "two", "three"):
        store.publish(_step(name), lambda out: {"bytes": (out / "model.safetensors").write_text("weights")})
    server = Server(store.home)
    server.end(server.start("soak", "a run", 1, {}, {}), "FINISHED", 2)
    return store.home


def _step(name: str) -> Step:
    return Step(ToyKind("toy", 1, nothing).of(Named(name=name)), name)


def _all() -> set[str]:
    return {_step(name).fingerprint for name in ("one", "two", "three")}


def _artifact(home: Path) -> Path:
    return home / "store" / "toy" / _step("one").fingerprint


def _run(home: Path, status: str) -> None:
    with sqlite3.connect(home / "mlflow.db") as database:
        database.execute("UPDATE runs SET status = ?", [status])


# Damage to a home, and the check that must fail; all checks pass before.
CHECKS: dict[str, Callable[[Path], checks.Check]] = {
    "records": checks.check_records,
    "kept": lambda home: checks.check_protected(home, {"all": sorted(_all())}),
    "size": lambda home: checks.check_size(home, _all()),
    "left": checks.check_nothing_left,
    "tracked": lambda home: checks.check_tracked(home, 1),
}
HARM: dict[str, tuple[str, Callable[[Path], object]]] = {
    "a byte is another": ("records", lambda home: (_artifact(home) / "model.safetensors").write_text("Weights")),
    "an artifact is gone": ("kept", lambda home: shutil.rmtree(_artifact(home))),
    "a file is too many": ("size", lambda home: (home / "store" / "toy" / "core").write_text("dumped")),
    "an artifact is too many": ("size", lambda home: Store(home).publish(_step("four"), lambda out: {})),
    "an artifact is half-written": ("left", lambda home: (home / "store" / ".partial" / "half").mkdir(parents=True)),
    "a step is unfinished": ("left", lambda home: (home / "work" / ("a" * 64)).mkdir(parents=True)),
    "a record is not delivered": ("left", lambda home: _touch(home / "tracking" / "dead.jsonl")),
    "a run goes on": ("tracked", lambda home: _run(home, "RUNNING")),
    "a run is not recorded": ("tracked", lambda home: _run(home, "KILLED")),
}


def _touch(path: Path) -> None:
    path.parent.mkdir(exist_ok=True)
    path.touch()


@pytest.mark.slow
@pytest.mark.parametrize("harm", HARM)
def test_the_checks_notice_what_is_amiss(harm: str, home: Path) -> None:
    assert [name for name, check in CHECKS.items() if not check(home).passed] == []
    name, do = HARM[harm]
    do(home)
    assert not CHECKS[name](home).passed


def test_a_database_that_grows_faster_and_faster_is_noticed() -> None:
    evenly = [(run, 1_000_000 + 20_000 * run) for run in range(0, 100, 5)]
    assert checks.check_growth(evenly).passed
    assert not checks.check_growth([(run, 1_000_000 + 200 * run**2) for run, _ in evenly]).passed


def test_turns_follow_from_the_seed_and_all_kinds_are_drawn() -> None:
    turns = [Turn.drawn(1, number) for number in range(1, 201)]
    assert turns == [Turn.drawn(1, number) for number in range(1, 201)]
    assert turns != [Turn.drawn(2, number) for number in range(1, 201)]
    assert {death.how for turn in turns for death in turn.deaths} == set(KILLS)
    assert {turn.errand for turn in turns} == set(ERRANDS)
    assert 100 < len({turn.changes for turn in turns}) < 200, "some do what one before did"


def test_a_command_is_killed_when_its_time_has_come_and_nothing_is_left(tmp_path: Path) -> None:
    ended = subgraft(tmp_path, "--help", death=Death("driver only", 0.01))
    assert ended.killed and not ended.succeeded
    assert seconds_until_none(tmp_path, 20)[1] == []


@pytest.mark.slow
@pytest.mark.ray
@pytest.mark.timeout(1500)
def test_a_short_soak_passes(repository: Path, tmp_path: Path) -> None:
    command = [sys.executable, str(repository / "benchmarks" / "soak.py"), "--out", str(tmp_path / "soak")]
    ended = subprocess.run([*command, "--runs=3", "--again=1", "--seed=4"], capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    figures = json.loads((tmp_path / "soak" / "figures.json").read_text())
    assert figures["counts"]["turns"] == 3 and all(check["passed"] for check in figures["checks"])
