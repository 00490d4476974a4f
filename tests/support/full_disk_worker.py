"""One of two workers that have a tensor in parts: `full_disk_worker.py RANK DIRECTORY background|waiting`.

They write a checkpoint and read it, then another for which the second has no room, and say what became of each.
"""

from __future__ import annotations

import resource
import sys
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path

import torch
import torch.distributed as dist
from torch import Tensor

from subgraft.base.errors import OperationalError
from subgraft.training.checkpoint import Checkpoints
from subgraft.training.checkpoint_writer import CheckpointWriter
from subgraft.training.engine import Batch
from subgraft.training.tensor_shards import GatheredTensors, TensorSlice

SHAPES = {1: 5, 2: 2_000_001}


class Halves:
    """An engine that has half of one tensor, and trains nothing."""

    def __init__(self, rank: int, numbers: int) -> None:
        self.rank, self.world, self.device = rank, 2, torch.device("cpu")
        half = -(-numbers // 2)
        self._part = TensorSlice(rank * half, min((rank + 1) * half, numbers), (numbers,))

    def state(self) -> dict[str, Tensor]:
        return {"w": torch.arange(self._part.start, self._part.stop, dtype=torch.float32)}

    def part(self, name: str) -> TensorSlice | None:
        return self._part if name == "w" else None

    def accumulate(self, batch: Batch, scale: Mapping[str, float], last: bool) -> dict[str, Tensor]:
        raise NotImplementedError

    def step(self, learning_rate: float) -> None:
        raise NotImplementedError

    def probe_memory(self, batch: Batch, losses: Sequence[str], times: int) -> None:
        raise NotImplementedError

    def load_state(self, tensors: Mapping[str, Tensor], steps: int) -> None:
        raise NotImplementedError

    def gathered_parameters(self) -> AbstractContextManager[None]:
        return nullcontext()


def main(rank: int, directory: Path, background: bool) -> None:
    dist.init_process_group("gloo", init_method=f"file://{directory}/rendezvous", rank=rank, world_size=2)
    checkpoints = Checkpoints(directory / "checkpoints", warn=lambda line: None)
    print(*written(checkpoints, rank, 1, background))
    dist.barrier()
    if rank == 1:
        resource.setrlimit(resource.RLIMIT_FSIZE, (1_000_000, resource.RLIM_INFINITY))
    try:
        written(checkpoints, rank, 2, background)
    except OperationalError as error:
        print(f"OperationalError: {error.what}")
    result = checkpoints.latest()
    print(result and result.step)
    dist.barrier()
    dist.destroy_process_group()


def written(checkpoints: Checkpoints, rank: int, step: int, background: bool) -> tuple[int, list[float]]:
    engine = Halves(rank, SHAPES[step])
    state, part = engine.state(), engine.part("w")
    assert part is not None
    with CheckpointWriter(checkpoints, engine, 0.0, background) as writer:
        assert writer.due(force=False)
        writer.write(step, state, {}, {"w": part}, {})
        writer.finish()
    dist.barrier()
    result = checkpoints.latest()
    assert result is not None
    assert torch.equal(result.tensors["w"], GatheredTensors(state, engine)["w"])
    return result.step, result.tensors["w"].tolist()


if __name__ == "__main__":
    main(int(sys.argv[1]), Path(sys.argv[2]), sys.argv[3] == "background")
