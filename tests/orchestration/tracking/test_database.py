"""The file of runs, damaged in every way: reported in one message, and never replaced silently."""

from __future__ import annotations

import os
import shutil
import sqlite3
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from subgraft.base.errors import OperationalError, SubgraftError, UserError
from subgraft.orchestration.tracking.database import make_or_check
from subgraft.orchestration.tracking.outbox import Delivery, EndRun, Outbox, StartRun
from subgraft.orchestration.tracking.server import Server, is_refusal


@pytest.fixture(autouse=True)
def no_server_set(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A file with one run in it; making its tables takes seconds."""
    home = tmp_path_factory.mktemp("whole")
    server = Server(home, f"sqlite:///{home}/mlflow.db")
    server.end(server.start("demo", "monday", 1, {}, {"rate": "0.5"}), "FINISHED", 2)
    return home / "mlflow.db"


def sql(database: Path, command: str) -> None:
    with closing(sqlite3.connect(database)) as opened:
        opened.execute(command)
        opened.commit()


def overwritten(database: Path) -> None:
    content = bytearray(database.read_bytes())
    middle = len(content) // 2
    content[middle : middle + 8192] = os.urandom(8192)
    database.write_bytes(content)


def of_another_program(database: Path) -> None:
    database.unlink()
    sql(database, "CREATE TABLE songs (title TEXT)")


def a_folder(database: Path) -> None:
    database.unlink()
    database.mkdir()


DAMAGE: dict[str, tuple[Callable[[Path], object], type[SubgraftError], str]] = {
    "emptied": (lambda one: one.write_bytes(b""), OperationalError, "is empty: the record of earlier runs is lost"),
    "no database": (
        lambda one: one.write_bytes(os.urandom(20_000)),
        OperationalError,
        "is damaged: file is not a data",
    ),
    "cut": (lambda one: os.truncate(one, one.stat().st_size // 2), OperationalError, "is damaged: .*malformed"),
    "overwritten": (overwritten, OperationalError, "is damaged"),
    "a table lost": (lambda one: sql(one, "DROP TABLE runs"), OperationalError, "is damaged: it has no table runs"),
    "another schema": (
        lambda one: sql(one, "UPDATE alembic_version SET version_num = 'ffffffffffff'"),
        OperationalError,
        r"database schema \(found version ffffffffffff.*\n.*mlflow db upgrade sqlite",
    ),
    "another program's": (of_another_program, UserError, "is not a database of MLflow"),
    "a folder": (a_folder, UserError, "this is not a file"),
}


@pytest.mark.parametrize("damage", DAMAGE)
def test_damage_is_reported_and_nothing_is_replaced(whole: Path, tmp_path: Path, damage: str) -> None:
    spoil, kind, message = DAMAGE[damage]
    database = tmp_path / "mlflow.db"
    shutil.copy(whole, database)
    spoil(database)
    before = database.read_bytes() if database.is_file() else None
    with pytest.raises(SubgraftError, match=message) as caught:
        Server(tmp_path)
    assert type(caught.value) is kind and str(database) in caught.value.where
    assert (database.read_bytes() if database.is_file() else None) == before


def test_a_whole_one_is_used_as_it_is(whole: Path, tmp_path: Path) -> None:
    shutil.copy(whole, tmp_path / "mlflow.db")
    make_or_check(tmp_path / "mlflow.db")
    assert Server(tmp_path).find("monday")


def test_one_that_stays_locked_is_reported_after_a_while(whole: Path, tmp_path: Path) -> None:
    database = tmp_path / "mlflow.db"
    shutil.copy(whole, database)
    with closing(sqlite3.connect(database, isolation_level=None)) as other:
        other.execute("BEGIN EXCLUSIVE")
        began = time.monotonic()
        with pytest.raises(OperationalError, match="another process has it locked"):
            make_or_check(database, locked_seconds=0.5)
        assert time.monotonic() - began < 10
        other.execute("ROLLBACK")
    make_or_check(database)


def test_a_run_continues_while_the_file_is_empty_and_is_recorded_when_it_is_back(whole: Path, tmp_path: Path) -> None:
    database, said = tmp_path / "mlflow.db", list[str]()
    database.touch()
    outbox = Outbox.create(tmp_path / "tracking")
    outbox.append(StartRun("invocation", None, "demo", "tuesday", {}, {}, 5))
    delivery = Delivery(outbox, tmp_path, None, said.append, retry=0.1)
    outbox.append(EndRun("invocation", "FINISHED", 6))
    while not said:
        time.sleep(0.05)
    assert "tracking is not available" in said[0] and "is empty" in said[0]
    shutil.copy(whole, database)
    assert delivery.finish() and len(said) == 1
    assert [run.name for run in Server(tmp_path).recent(5)] == ["tuesday", "monday"]


def test_later_damage_is_not_a_refusal(whole: Path, tmp_path: Path) -> None:
    """Operations that a file damaged meanwhile does not accept stay, with one line."""
    database = tmp_path / "mlflow.db"
    shutil.copy(whole, database)
    server = Server(tmp_path)
    run = server.find("monday")
    database.write_bytes(os.urandom(database.stat().st_size))
    with pytest.raises(Exception) as caught:
        server.set_tags(run.id, {"a": "b"})
    assert not is_refusal(caught.value)
    with pytest.raises(OperationalError, match="cannot be used"), server.answering():
        server.set_tags(run.id, {"a": "b"})
