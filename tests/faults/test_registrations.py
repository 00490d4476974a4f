"""Many processes that register models at once: a version each, and the aliases where they belong."""

from __future__ import annotations

import multiprocessing
from multiprocessing.synchronize import Barrier
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

from subgraft.orchestration.store.step import Step
from subgraft.orchestration.store.store import Store
from subgraft.orchestration.tracking.model_registry import CANDIDATE, CHAMPION, Registry
from subgraft.orchestration.tracking.server import Server
from subgraft.orchestration.tracking.tracker import Tracker
from subgraft.training.context import Json
from subgraft.training.stage import Stage
from toy_steps import ToyKind, nothing
from tracking_servers import TrackingServer

WRITERS = 16
# Imported once, and not by each of them.
IMPORTS = ["mlflow.store.tracking.sqlalchemy_store", "mlflow.store.model_registry.sqlalchemy_store", "mlflow.tracking"]
MODEL = "crowded-en-de"


class ToyStage(Stage):
    number: int


def register_one(home: Path, uri: str | None, number: int, together: Barrier) -> None:
    """Register a small model of this process's own, at the same moment as all others."""
    store = Store(home)
    step = Step(ToyKind("finetune", 1, nothing).of(ToyStage(number=number)), f"finetune {number}")

    def write(out: Path) -> dict[str, Json]:
        save_file({"w": np.full(3, number, np.float32)}, out / "model.safetensors")
        return {}

    record = store.publish(step, write)
    together.wait()
    said: list[str] = []
    tracker = Tracker(store, "crowded", said.append, name=f"run {number}", uri=uri)
    tracker.finished(step, record)
    tracker.register(step, MODEL, (CANDIDATE, CHAMPION), {"number": str(number)}, card=f"# Model {number}\n")
    assert tracker.close(), said


def register_all(home: Path, uri: str | None = None) -> None:
    processes = multiprocessing.get_context("forkserver")
    processes.set_forkserver_preload(IMPORTS)
    together = processes.Barrier(WRITERS)
    writers = [
        processes.Process(target=register_one, args=(home, uri, number, together), daemon=True)
        for number in range(WRITERS)
    ]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join(timeout=300)
    assert [writer.exitcode for writer in writers] == [0] * WRITERS


def check(home: Path, uri: str | None = None) -> None:
    """A version for everyone, with its own files; the first is champion, and one of them is the candidate."""
    registry = Registry(Server(home, uri))
    versions = registry.versions()
    assert sorted(one.number for one in versions) == list(range(1, WRITERS + 1))
    assert sorted(int(one.tags["number"]) for one in versions) == list(range(WRITERS))
    for one in versions:
        directory = registry.resolve(one.uri)
        assert load_file(directory / "model.safetensors")["w"][0] == int(one.tags["number"])
        assert (directory / "README.md").read_text() == f"# Model {one.tags['number']}\n"
    assert [one.number for one in versions if CHAMPION in one.aliases] == [1]
    assert len([one for one in versions if CANDIDATE in one.aliases]) == 1


@pytest.mark.slow
def test_sixteen_at_once_are_sixteen_versions(tmp_path: Path) -> None:
    register_all(tmp_path)
    check(tmp_path)


@pytest.mark.slow
def test_sixteen_at_once_on_a_server_too(tracking_server: TrackingServer, tmp_path: Path) -> None:
    register_all(tmp_path / "home", tracking_server.uri)
    check(tmp_path / "home", tracking_server.uri)
