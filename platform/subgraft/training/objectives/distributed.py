"""The workers of a training, as far as what is computed on one must be the same on all."""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import Protocol

import torch
import torch.distributed as dist
from torch import Tensor


class Workers(Protocol):
    """One of `world` workers, which a training's engine is."""

    rank: int
    world: int
    device: torch.device

    def whole(self) -> AbstractContextManager[None]:
        """While open, the module's parameters are whole on every worker."""
        ...


def rank_and_world() -> tuple[int, int]:
    """Which of how many workers this one is."""
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
