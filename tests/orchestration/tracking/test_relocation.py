"""A home that was copied: its models are its own, and what is recorded there stays there."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from safetensors.numpy import save_file

from subgraft.orchestration.store.step import Step
from subgraft.orchestration.store.store import Store
from subgraft.orchestration.tracking.model_registry import Registry
from subgraft.orchestration.tracking.server import Server
from subgraft.orchestration.tracking.tracker import Tracker
from subgraft.training.context import Json
from subgraft.training.stage import Stage
from toy_steps import ToyKind, nothing, record_of


class ToyStage(Stage):
    name: str


def register(home: Path, name: str) -> None:
    """A run that registers a model."""

    def write(out: Path) -> dict[str, Json]:
        import numpy as np

        save_file({"table": np.full(4, len(name), dtype=np.float32)}, out / "model.safetensors")
        return {}

    store = Store(home)
    step = Step(ToyKind("finetune", 1, nothing).of(ToyStage(name=name)), f"finetune {name}")
    store.publish(step, write)
    tracker = Tracker(store, "demo", print)
    tracker.finished(step, record_of(store, step))
    tracker.register(step, "demo-en-de", ("candidate", "champion"), card=f"# {name}\n")
    assert tracker.close()


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    register(tmp_path / "first", "one")
    return tmp_path / "first"


def files(folder: Path) -> list[Path]:
    return sorted(path.relative_to(folder) for path in folder.rglob("*"))


def test_a_copied_home_has_models_of_its_own(home: Path, tmp_path: Path) -> None:
    copy = tmp_path / "a folder with spaces" / "second"
    shutil.copytree(home, copy)
    before = files(home)
    directory = Registry(Server(copy)).resolve("models:/demo-en-de@champion")
    assert directory.is_relative_to(copy)
    register(copy, "another")
    assert Registry(Server(copy)).resolve("models:/demo-en-de@candidate").is_relative_to(copy)
    assert files(home) == before, "the copy wrote into the home that it was made of"
    assert Registry(Server(home)).resolve("models:/demo-en-de").is_relative_to(home)


def test_a_moved_home_finds_its_models(home: Path, tmp_path: Path) -> None:
    moved = home.rename(tmp_path / "elsewhere")
    assert Registry(Server(moved)).resolve("models:/demo-en-de").is_relative_to(moved)


def test_another_way_to_the_same_home_changes_nothing(home: Path, tmp_path: Path) -> None:
    link = tmp_path / "link"
    link.symlink_to(home)
    assert Registry(Server(link)).resolve("models:/demo-en-de").is_relative_to(home)
