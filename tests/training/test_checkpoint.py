from __future__ import annotations

import hashlib
import json
import resource
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import torch

from subgraft.base.errors import OperationalError
from subgraft.training.checkpoint import STATE, TENSORS, Checkpoints
from subgraft.training.tensor_shards import TensorSlice


def _save(checkpoints: Checkpoints, step: int) -> None:
    checkpoints.save(step, {"w": torch.full((4,), float(step))}, {"epoch": step})


def test_the_latest_comes_back_and_only_two_are_kept(tmp_path: Path) -> None:
    checkpoints = Checkpoints(tmp_path)
    assert checkpoints.latest() is None
    for step in (1, 2, 3, 10):
        _save(checkpoints, step)
    latest = checkpoints.latest()
    assert latest is not None
    assert (latest.step, latest.state, latest.tensors["w"].tolist()) == (10, {"epoch": 10}, [10.0] * 4)
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
    warnings: list[str] = []
    checkpoints = Checkpoints(tmp_path, warn=warnings.append)
    _save(checkpoints, 1)
    _save(checkpoints, 2)
    damage(tmp_path / "step-000000002" / name)
    latest = checkpoints.latest()
    assert latest is not None and latest.step == 1
    assert len(warnings) == 1 and "step-000000002" in warnings[0]
    _save(checkpoints, 2)
    again = checkpoints.latest()
    assert again is not None and again.step == 2


def test_a_checkpoint_that_was_being_written_does_not_count(tmp_path: Path) -> None:
    checkpoints = Checkpoints(tmp_path)
    _save(checkpoints, 1)
    (tmp_path / ".writing-000000002").mkdir()
    latest = checkpoints.latest()
    assert latest is not None and latest.step == 1
    _save(checkpoints, 2)
    latest = checkpoints.latest()
    assert latest is not None and latest.step == 2


@contextmanager
def _small_files() -> Iterator[None]:
    """No file of this process can have more than 4 KiB."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (4096, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def test_a_full_disk_is_an_operational_error_and_keeps_the_last_one(tmp_path: Path) -> None:
    checkpoints = Checkpoints(tmp_path)
    _save(checkpoints, 1)
    with _small_files(), pytest.raises(OperationalError, match="checkpoint"):
        checkpoints.save(2, {"w": torch.zeros(100_000)}, {})
    assert [path.name for path in tmp_path.iterdir()] == ["step-000000001"], "room is given back"
    latest = checkpoints.latest()
    assert latest is not None and latest.step == 1


# Seven numbers over three workers, of which the last has none, and a tensor that only the first has, whole.
WHOLE = torch.arange(7.0)
PARTS = [TensorSlice(0, 4, (7, 1)), TensorSlice(4, 7, (7, 1)), TensorSlice(7, 7, (7, 1))]


def _save_shards(checkpoints: Checkpoints, step: int, ranks: int = 3) -> None:
    for rank, part in enumerate(PARTS[:ranks]):
        alone = {"count": torch.tensor(step)} if rank == 0 else {}
        checkpoints.save_shard(step, {"w": part.of(WHOLE + step), **alone}, {"w": part}, rank, 3)


def test_shards_are_a_checkpoint_once_they_are_published(tmp_path: Path) -> None:
    checkpoints = Checkpoints(tmp_path)
    _save_shards(checkpoints, 1, ranks=2)
    assert checkpoints.latest() is None, "a write that was killed"
    _save_shards(checkpoints, 2)
    assert checkpoints.latest() is None
    checkpoints.publish(2, {"epoch": 5}, 3)
    assert [path.name for path in tmp_path.iterdir()] == ["step-000000002"], "nothing is left of the former"
    latest = checkpoints.latest()
    assert latest is not None and (latest.step, latest.state) == (2, {"epoch": 5})
    assert latest.tensors.keys() == {"w", "count"} and "other" not in latest.tensors
    assert latest.tensors["w"].tolist() == [[number + 2] for number in WHOLE.tolist()]
    assert latest.tensors["count"].item() == 2


def test_the_index_names_every_shard_with_digest_size_and_parts(tmp_path: Path) -> None:
    checkpoints = Checkpoints(tmp_path)
    _save_shards(checkpoints, 2)
    checkpoints.publish(2, {}, 3)
    index = json.loads(json.loads((tmp_path / "step-000000002" / STATE).read_text())["payload"])
    files = {path.name: path.read_bytes() for path in (tmp_path / "step-000000002").glob("*.safetensors")}
    assert index["world"] == 3 == len(index["shards"]) == len(files)
    for shard in index["shards"]:
        content = files[shard["file"]]
        assert (shard["size"], shard["sha256"]) == (len(content), hashlib.sha256(content).hexdigest())
    assert [shard["parts"].get("w") for shard in index["shards"]] == [
        {"start": 0, "stop": 4, "shape": [7, 1]},
        {"start": 4, "stop": 7, "shape": [7, 1]},
        None,
    ]


@pytest.mark.parametrize("damage", [_truncate, _empty, _flip, Path.unlink])
@pytest.mark.parametrize("name", [STATE, "shard-00001-of-00003.safetensors"])
def test_damaged_shards_are_set_aside_for_the_checkpoint_before(
    tmp_path: Path, name: str, damage: Callable[[Path], None]
) -> None:
    warnings: list[str] = []
    checkpoints = Checkpoints(tmp_path, warn=warnings.append)
    for step in (1, 2):
        _save_shards(checkpoints, step)
        checkpoints.publish(step, {}, 3)
    damage(tmp_path / "step-000000002" / name)
    latest = checkpoints.latest()
    assert latest is not None and latest.step == 1 and latest.tensors["count"].item() == 1
    assert len(warnings) == 1 and "step-000000002" in warnings[0]


@pytest.mark.parametrize("second", [TensorSlice(3, 7, (7, 1)), TensorSlice(5, 7, (7, 1)), TensorSlice(4, 6, (7, 1))])
def test_shards_that_do_not_make_up_a_tensor_do_not_verify(tmp_path: Path, second: TensorSlice) -> None:
    """They overlap, or leave something out."""
    warnings: list[str] = []
    checkpoints = Checkpoints(tmp_path, warn=warnings.append)
    for rank, part in enumerate((PARTS[0], second)):
        checkpoints.save_shard(1, {"w": part.of(WHOLE)}, {"w": part}, rank, 2)
    checkpoints.publish(1, {}, 2)
    assert checkpoints.latest() is None
    assert "do not cover w" in warnings[0]


def test_a_shard_that_finds_no_room_leaves_the_others_and_the_last_checkpoint(tmp_path: Path) -> None:
    checkpoints = Checkpoints(tmp_path)
    _save_shards(checkpoints, 1)
    checkpoints.publish(1, {}, 3)
    large = TensorSlice(0, 100_000, (200_000,))
    with _small_files(), pytest.raises(OperationalError, match="checkpoint"):
        checkpoints.save_shard(2, {"w": torch.zeros(100_000)}, {"w": large}, 0, 2)
    checkpoints.save_shard(2, {"w": torch.zeros(10)}, {"w": large}, 1, 2)
    assert len(list((tmp_path / ".writing-000000002").iterdir())) == 2, "a shard and its description"
    with pytest.raises(OperationalError):
        checkpoints.publish(2, {}, 2)
    latest = checkpoints.latest()
    assert latest is not None and latest.step == 1
