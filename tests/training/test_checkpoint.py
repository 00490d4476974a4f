from __future__ import annotations

import resource
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from subgraft.errors import OperationalError
from subgraft.training.checkpoint import STATE, TENSORS, Checkpoints


def _save(checkpoints: Checkpoints, step: int) -> None:
    checkpoints.save(step, {"w": torch.full((4,), float(step))}, {"epoch": step})


def test_the_latest_comes_back_and_only_two_are_kept(tmp_path: Path) -> None:
    checkpoints = Checkpoints(tmp_path)
    assert checkpoints.latest() is None
    for step in (1, 2, 3, 10):
        _save(checkpoints, step)
    found = checkpoints.latest()
    assert found is not None
    assert (found.step, found.state, found.tensors["w"].tolist()) == (10, {"epoch": 10}, [10.0] * 4)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["step-000000003", "step-000000010"]


def _truncate(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-3])


def _empty(path: Path) -> None:
    path.write_bytes(b"")


def _flip(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(bytes(data))


@pytest.mark.parametrize("name", [TENSORS, STATE])
@pytest.mark.parametrize("damage", [_truncate, _empty, _flip, Path.unlink])
def test_a_damaged_checkpoint_is_set_aside_for_the_one_before(
    tmp_path: Path, name: str, damage: Callable[[Path], None]
) -> None:
    told: list[str] = []
    checkpoints = Checkpoints(tmp_path, warn=told.append)
    _save(checkpoints, 1)
    _save(checkpoints, 2)
    damage(tmp_path / "step-000000002" / name)
    found = checkpoints.latest()
    assert found is not None and found.step == 1
    assert len(told) == 1 and "step-000000002" in told[0]
    _save(checkpoints, 2)
    again = checkpoints.latest()
    assert again is not None and again.step == 2


def test_a_checkpoint_that_was_being_written_does_not_count(tmp_path: Path) -> None:
    checkpoints = Checkpoints(tmp_path)
    _save(checkpoints, 1)
    (tmp_path / ".writing-000000002").mkdir()
    found = checkpoints.latest()
    assert found is not None and found.step == 1
    _save(checkpoints, 2)
    found = checkpoints.latest()
    assert found is not None and found.step == 2


def test_a_full_disk_is_an_operational_error_and_keeps_the_last_one(tmp_path: Path) -> None:
    checkpoints = Checkpoints(tmp_path)
    _save(checkpoints, 1)
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (4096, hard))
    try:
        with pytest.raises(OperationalError, match="checkpoint"):
            checkpoints.save(2, {"w": torch.zeros(100_000)}, {})
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    found = checkpoints.latest()
    assert found is not None and found.step == 1
