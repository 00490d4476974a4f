"""A password and a token that a run is started with: no file of store, MLflow or registered model has them."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import save_file

from small_experiments import tiny, written
from subgraft.base.errors import OperationalError
from subgraft.config.runtime import Runtime
from subgraft.config.settings_base import Settings
from subgraft.orchestration.execution.worker import TRACEBACK, Job, perform
from subgraft.orchestration.store.events import EVENTS, EventLog, StageContext, Warned
from subgraft.orchestration.store.provenance import Provenance
from subgraft.orchestration.store.step import Step
from subgraft.orchestration.store.store import Store
from subgraft.orchestration.tracking.model_registry import CARD, Registry
from subgraft.orchestration.tracking.server import Server
from subgraft.orchestration.tracking.tracker import Tracker
from subgraft.training.context import Json
from subgraft.training.stage import Stage
from toy_steps import ToyKind, nothing, record_of
from tracking_servers import TrackingServer

PASSWORD, TOKEN = "pl4nted-P4ssword", "pl4nted-T0ken"
ADDRESS = f"http://me:{PASSWORD}@127.0.0.1:9"


class ToyStage(Stage):
    system: str = "avg"


class Where(Settings):
    """A group of settings with a server's address."""

    tracking_uri: str


def fail(*arguments: object) -> dict[str, Json]:
    raise RuntimeError(f"{ADDRESS} refused {TOKEN}")


@pytest.fixture(autouse=True)
def planted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    monkeypatch.setenv("HF_TOKEN", TOKEN)
    monkeypatch.setattr(
        sys, "argv", ["subgraft", "run", f"runtime.tracking_uri={ADDRESS}", "--password", PASSWORD, TOKEN]
    )


def leaks(*folders: Path) -> Iterator[str]:
    """The files, of any kind, that hold what was planted."""
    for folder in folders:
        for path in sorted(folder.rglob("*")):
            held = path.read_bytes() if path.is_file() else b""
            yield from (f"{path}: {one}" for one in (PASSWORD, TOKEN) if one.encode() in held or one in path.name)


def test_they_are_in_no_record_no_database_and_no_registered_model(tmp_path: Path) -> None:
    store = Store(tmp_path / "home")
    said: list[str] = []
    step = Step(ToyKind("finetune", 1, nothing).of(ToyStage()), "finetune avg")

    def write(out: Path) -> dict[str, Json]:
        save_file({"weight": np.zeros(3, np.float32)}, out / "model.safetensors")
        return {}

    store.publish(step, write)
    broken = Step(ToyKind("evaluate", 1, nothing).of(ToyStage(system="broken")), "evaluate avg")
    settings = {"runtime": Where(tracking_uri=ADDRESS).model_dump(), "note": f"with {TOKEN}"}
    tracker = Tracker(store, "demo", said.append, name="planted", params=settings, tags={"from": ADDRESS})
    tracker.finished(step, record_of(store, step))
    tracker.warned(broken, Warned(f"{ADDRESS} was slow", 0.0))
    tracker.failed(broken, OperationalError(f"{ADDRESS} was away", where=ADDRESS))
    card = f"# A card\n\nMade with `HF_TOKEN={TOKEN} subgraft run runtime.tracking_uri={ADDRESS}`.\n"
    tracker.register(step, "demo-en-de", ("champion",), {"command": f"--token {TOKEN}"}, card=card)
    outbox = next((store.home / "tracking").glob("*.jsonl")).read_text()
    assert tracker.close(), said

    assert PASSWORD not in outbox and TOKEN not in outbox
    assert not list(leaks(store.home))
    server = Server(store.home)
    assert (
        server.find("planted").tags["argv"]
        == "subgraft run runtime.tracking_uri=http://***@127.0.0.1:9 --password *** ***"
    )
    registered = Registry(server).resolve("models:/demo-en-de")
    assert "HF_TOKEN=*** subgraft" in (registered / CARD).read_text()


def test_a_failing_stage_shows_them_nowhere(tmp_path: Path) -> None:
    step = Step(ToyKind("evaluate", 1, fail).of(ToyStage()), "evaluate avg")
    store = Store(tmp_path)
    with pytest.raises(OperationalError, match=r"http://\*\*\*@127\.0\.0\.1:9 refused \*\*\*") as caught:
        perform(Job(step, tmp_path, Runtime(), 1, 0, False, Provenance.here()))
    StageContext(store.work(step), Runtime(), EventLog(store.work(step) / EVENTS)).warn(f"{ADDRESS} and {TOKEN}")
    assert (store.work(step) / TRACEBACK).is_file()
    assert not list(leaks(tmp_path)) and PASSWORD not in repr(caught.value)


@pytest.mark.slow
@pytest.mark.ray
def test_a_whole_run_leaves_them_nowhere(tracking_server: TrackingServer, tmp_path: Path) -> None:
    """Nor what it prints: with a server whose address has them, and after a run that fails on it."""
    place, home = tmp_path / "place", tmp_path / "home"
    place.mkdir()
    config = written(place, tiny(pretrain="{max_steps: 4, batch_size: 500, precision: fp32, dev_sentences: 2}"))
    address = tracking_server.uri.replace("://", f"://me:{PASSWORD}@")
    ended = subprocess.run(
        [sys.executable, "-m", "subgraft", "run", str(config), f"runtime.tracking_uri={address}"],
        env=os.environ | {"SUBGRAFT_HOME": str(home), "HF_TOKEN": TOKEN},
        capture_output=True,
        text=True,
        timeout=800,
        check=False,
    )
    assert ended.returncode == 0, ended.stderr
    assert "MLFLOW_TRACKING_URI='http://***@" in ended.stdout
    assert PASSWORD not in ended.stdout + ended.stderr and TOKEN not in ended.stdout + ended.stderr
    assert "tracking is not available" not in ended.stderr
    assert not list(leaks(home, tmp_path / "server"))
    tracking_server.kill()
    compared = subprocess.run(
        [sys.executable, "-m", "subgraft", "compare", "tiny"],
        env=os.environ | {"SUBGRAFT_HOME": str(home), "MLFLOW_TRACKING_URI": address},
        capture_output=True,
        text=True,
        check=False,
    )
    assert compared.returncode == 1 and "http://***@" in compared.stderr, compared.stderr
    assert PASSWORD not in compared.stdout + compared.stderr
