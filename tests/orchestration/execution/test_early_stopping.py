"""A training that is ended early continues from the full one's checkpoints, and is a result of its own recipe."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from small_experiments import LONG_PRETRAINING, planned, tiny, written
from subgraft.base.errors import UserError
from subgraft.interfaces.api.experiments import stopped_after
from subgraft.interfaces.cli import main
from subgraft.orchestration.execution.early_stopping import (
    CHECKPOINTS,
    PRECISION,
    copy_checkpoints,
    full_training,
    last_checkpoint_update,
)
from subgraft.orchestration.store.step import Step, in_order
from subgraft.orchestration.store.store import Store
from subgraft.pipeline.stages.training import PretrainStage
from subgraft.training import auto_precision
from subgraft.training.checkpoint import Checkpoints


@pytest.fixture
def config(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("SUBGRAFT_HOME", str(tmp_path / "home"))
    return written(tmp_path, tiny(pretrain=LONG_PRETRAINING))


def pretraining(config: Path, *changes: str) -> Step:
    pipeline = planned(config, *changes)
    (step,) = (step for step in in_order([pipeline.report]) if isinstance(step.stage, PretrainStage))
    return step


def save_checkpoints(store: Store, step: Step, *updates: int) -> None:
    """The checkpoints of a training that was stopped."""
    checkpoints = Checkpoints(store.work(step) / CHECKPOINTS / "all")
    for update in updates:
        checkpoints.save(update, {"parameter.a": torch.full((2,), float(update))}, {"epoch": 1})


def test_it_takes_over_what_is_not_beyond_its_end(config: Path, tmp_path: Path) -> None:
    store, whole = Store(tmp_path / "home"), pretraining(config)
    ended = pretraining(config, "pretrain.stop_after=15")
    assert full_training(whole) is None
    assert ended.fingerprint != whole.fingerprint == (full_training(ended) or ended).fingerprint
    copy_checkpoints(store, ended)
    assert not store.work(ended).exists(), "there is nothing yet"
    save_checkpoints(store, whole, 10, 20)
    copy_checkpoints(store, ended)
    latest = Checkpoints(store.work(ended) / CHECKPOINTS / "all").latest()
    assert latest is not None and latest.step == 10
    save_checkpoints(store, ended, 12)
    copy_checkpoints(store, ended)
    assert Checkpoints(store.work(ended) / CHECKPOINTS / "all").latest().step == 12  # type: ignore[union-attr]
    assert last_checkpoint_update(store, [ended]) == 20 and last_checkpoint_update(store, [whole]) is None


def test_it_goes_on_in_the_precision_that_the_whole_training_began_in(config: Path, tmp_path: Path) -> None:
    store, whole = Store(tmp_path / "home"), pretraining(config, "pretrain.precision=auto")
    ended = pretraining(config, "pretrain.precision=auto", "pretrain.stop_after=15")
    save_checkpoints(store, whole, 10)
    (store.work(whole) / PRECISION).write_text("what was measured")
    copy_checkpoints(store, ended)
    assert (store.work(ended) / PRECISION).read_text() == "what was measured"
    assert auto_precision.PRECISION == PRECISION


def test_the_command_ends_it_at_its_last_checkpoint(config: Path, tmp_path: Path) -> None:
    with pytest.raises(UserError, match="no unfinished training of it has a checkpoint"):
        stopped_after(config, [], "pretrain")
    save_checkpoints(Store(tmp_path / "home"), pretraining(config, "finetune.epochs=2"), 10, 20)
    assert stopped_after(config, ["finetune.epochs=2"], "pretrain") == ["finetune.epochs=2", "pretrain.stop_after=20"]
    assert stopped_after(config, [], "finetune=3") == ["finetune.stop_after=3"]


def test_a_plan_shows_it_and_a_mistake_is_one_message(config: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run", str(config), "--stop-after", "pretrain=7", "--plan"]) == 0
    printed = capsys.readouterr()
    assert "ended early  pretrain.stop_after=7" in printed.err and "pretrain on upstream" in printed.out
    assert main(["run", str(config), "--stop-after", "pretraining=7", "--plan"]) == 2
    assert "did you mean 'pretrain'?" in capsys.readouterr().err
    assert main(["run", str(config), "--stop-after", "pretrain=0", "--plan"]) == 2
    assert "pretrain.stop_after: expected" in capsys.readouterr().err
