"""Values that must be equal on all workers of a training, and dev sets divided among the workers."""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import Protocol

import torch
import torch.distributed as dist
from torch import Tensor


class Workers(Protocol):
    """One of `world` workers; a training's engine implements it."""

    rank: int
    world: int
    device: torch.device

    def whole(self) -> AbstractContextManager[None]:
        """Context in which every worker has the module's complete parameters."""
        ...


def rank_and_world() -> tuple[int, int]:
    """The rank of this worker and the number of workers."""
    return (dist.get_rank(), dist.get_world_size()) if dist.is_initialized() else (0, 1)


def marked_anywhere(marks: Tensor, workers: Workers) -> Tensor:
    """Of a tensor of bools, which any worker has set."""
    if workers.world == 1:
        return marks
    flags = marks.to(workers.device, torch.uint8)
    dist.all_reduce(flags, op=dist.ReduceOp.MAX)
    return flags.bool().to(marks.device)


def gathered(share: Tensor, count: int, device: torch.device) -> Tensor:
    """All `count` rows of which each worker has every world-th one, beginning with the one of its rank: its share.

    device: where workers send from.
    """
    rank, world = rank_and_world()
    if world == 1:
        return share
    rows = torch.zeros(count, *share.shape[1:], dtype=share.dtype, device=device)
    rows[rank::world] = share.to(device)
    dist.all_reduce(rows)  # adds zeros, which is exact
    return rows.to(share.device)
