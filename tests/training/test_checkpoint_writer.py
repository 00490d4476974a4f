"""Checkpoints in the background: the same bytes, one at a time, and failures are reported."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from subgraft.base.errors import OperationalError
from subgraft.config.training import TrainingSettings
from subgraft.training.checkpoint import Checkpoints
from subgraft.training.checkpoint_writer import CheckpointWriter
from subgraft.training.engine import PlainEngine

SETTINGS = TrainingSettings(max_steps=1, batch_size=10, learning_rate=0.1, warmup_steps=1)
FULL = Path(__file__).resolve().parents[1] / "support" / "full_disk_worker.py"


class Held(Checkpoints):
    """Begins to write when it is let."""

    def __init__(self, directory: Path) -> None:
        super().__init__(directory)
        self.may = threading.Event()

    def save(self, step: int, tensors: Mapping[str, Tensor], state: Mapping[str, Any]) -> None:
        assert self.may.wait(60)
        super().save(step, tensors, state)


def _writer(checkpoints: Checkpoints, background: bool, seconds: float = 1e-9) -> CheckpointWriter:
    engine = PlainEngine(nn.Linear(2, 1), SETTINGS, torch.device("cpu"))
    return CheckpointWriter(checkpoints, engine, seconds, background)


def _files(directory: Path) -> dict[str, bytes]:
    return {str(path.relative_to(directory)): path.read_bytes() for path in directory.rglob("*") if path.is_file()}


def test_both_ways_write_the_same_bytes_whatever_the_next_update_does(tmp_path: Path) -> None:
    for background in (False, True):
        checkpoints = Held(tmp_path / str(background))
        weights, best = torch.arange(6.0).reshape(2, 3), torch.ones(2, 3)
        with _writer(checkpoints, background) as writer:
            if not background:
                checkpoints.may.set()
            assert writer.due(force=False)
            writer.write(4, {"parameter.w": weights.T}, {"best.parameter.w": best}, {}, {"epoch": 1})
            weights += 1  # the next update
            checkpoints.may.set()
            writer.finish()
    assert _files(tmp_path / "True") == _files(tmp_path / "False") != {}


def test_one_is_written_at_a_time_and_the_next_put_off_or_waited_for(tmp_path: Path) -> None:
    checkpoints = Held(tmp_path)
    with _writer(checkpoints, background=True) as writer:
        assert writer.due(force=False)
        writer.write(1, {"w": torch.zeros(3)}, {}, {}, {})
        assert not writer.due(force=False), "one is being written"
        assert checkpoints.latest() is None
        threading.Timer(0.2, checkpoints.may.set).start()
        assert writer.due(force=True)
        latest = checkpoints.latest()
        assert latest is not None and latest.step == 1, "it was waited for"
        writer.write(2, {"w": torch.ones(3)}, {}, {}, {})
    latest = checkpoints.latest()
    assert latest is not None and (latest.step, latest.tensors["w"].tolist()) == (2, [1.0] * 3), "the end waits"


def test_it_is_due_by_the_clock(tmp_path: Path) -> None:
    with _writer(Checkpoints(tmp_path), background=True, seconds=0.2) as writer:
        assert not writer.due(force=False)
        assert writer.due(force=True)
        time.sleep(0.25)
        assert writer.due(force=False)


@pytest.mark.parametrize("at", ["the next update", "the end"])
def test_what_the_background_could_not_write_is_raised_by_the_training(tmp_path: Path, at: str) -> None:
    """Where a file is in the way of the directory."""
    checkpoints = Checkpoints(tmp_path)
    (tmp_path / ".writing-000000001").touch()
    with _writer(checkpoints, background=True) as writer:
        writer.write(1, {"w": torch.zeros(3)}, {}, {}, {})
        with pytest.raises(OperationalError, match="cannot write a checkpoint") as raised:
            if at == "the end":
                writer.finish()
            else:
                until = time.monotonic() + 60
                while not writer.due(force=False) and time.monotonic() < until:
                    time.sleep(0.01)
    assert raised.value.exit_code == 1 and "carries on" in raised.value.hint


def test_memory_for_copies_is_taken_once(tmp_path: Path) -> None:
    tensors = {"w": torch.zeros(1000)}
    with _writer(Checkpoints(tmp_path), background=True) as writer:
        writer.reserve(tensors, {})
        (held,) = writer._copies.values()
        for step in (1, 2):
            assert writer.due(force=True)
            writer.write(step, tensors, {}, {}, {})
        assert writer._copies["w"] is held
    waiting = _writer(Checkpoints(tmp_path), background=False)
    waiting.reserve(tensors, {})
    assert not waiting._copies


@pytest.mark.slow
@pytest.mark.parametrize("background", [False, True])
def test_workers_in_parts_write_read_and_fail_together(tmp_path: Path, background: bool) -> None:
    """Two processes, of which the second runs out of room: both raise its error, and the last checkpoint stays."""
    with (tmp_path / "log").open("w") as log:
        running = [
            subprocess.Popen(
                [sys.executable, str(FULL), str(rank), str(tmp_path), "background" if background else "waiting"],
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                env=os.environ | {"OMP_NUM_THREADS": "1"},
            )
            for rank in range(2)
        ]
        said = [process.communicate(timeout=200)[0] for process in running]
    assert [process.returncode for process in running] == [0, 0], (tmp_path / "log").read_text()
    assert said[0] == said[1]
    lines = said[0].splitlines()
    assert lines[0] == "1 [0.0, 1.0, 2.0, 3.0, 4.0]"
    assert lines[1].startswith("OperationalError: cannot write a checkpoint: ") and "too large" in lines[1].lower()
    assert lines[2] == "1"
