"""Values that must be equal on all workers of a training, and dev sets divided among the workers.

Each worker computes whole batches of a dev set. All get the same figures, equal to those of one worker to the bit:
batches are composed as for one worker, and their values are added up in the same order.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from itertools import chain
from typing import Protocol

import numpy as np
import torch
import torch.distributed as dist
from torch import Tensor, nn


def sums_over_batches(
    batches: Sequence[np.ndarray],
    values: Callable[[np.ndarray], Sequence[float]],
    device: torch.device,
    count: int = 1,
) -> list[float]:
    """Sums over batches of `count` values each; every worker computes its share of the batches."""
    (rank, world), rows = rank_and_world(), list[Sequence[float]]()
    for first in range(0, len(batches), world):
        # A sharded model's passes are collective: a worker without a batch computes the last one, without effect.
        rows.append(values(batches[min(first + rank, len(batches) - 1)]))
    own = torch.tensor(rows, dtype=torch.float64).reshape(-1, count)[: len(range(rank, len(batches), world))]
    totals = [0.0] * count
    for of_batch in gathered(own, len(batches), device).tolist():
        totals = [total + value for total, value in zip(totals, of_batch, strict=True)]
    return totals


def texts_by_worker(
    texts: Sequence[str],
    lengths: Callable[[], Sequence[int]],
    at_once: int,
    write: Callable[[Sequence[str]], list[str]],
    model: nn.Module,
) -> list[str]:
    """The output for each text, of which every worker generates its share.

    With ZeRO 3 each worker generates all outputs, because forward passes are collective and outputs differ in length.

    Args:
        texts: the inputs.
        lengths: called for the lengths of the texts [n], by which they are sorted, if there are several workers.
        at_once: number of texts in a batch.
        write: generates the outputs of texts.
        model: the model that `write` uses.
    """
    (rank, world), parameters = rank_and_world(), list(model.parameters())
    if world == 1 or any(hasattr(parameter, "ds_id") for parameter in parameters):
        return write(texts)
    length = lengths()
    order = sorted(range(len(texts)), key=lambda place: -length[place])
    chunks = [order[start : start + at_once] for start in range(0, len(order), at_once)]
    own = list(chain.from_iterable(chunks[rank::world]))
    written = dict(zip(own, write([texts[place] for place in own]) if own else [], strict=True))
    for other in _exchanged(json.dumps(written).encode(), parameters[0].device):
        written |= {int(place): text for place, text in json.loads(other).items()}
    return [written[place] for place in range(len(texts))]


def _exchanged(message: bytes, device: torch.device) -> list[bytes]:
    """The messages of all workers."""
    sizes = [torch.zeros(1, dtype=torch.int64, device=device) for _ in range(dist.get_world_size())]
    dist.all_gather(sizes, torch.tensor([len(message)], device=device))
    longest = max(int(size) for size in sizes)
    padded = torch.frombuffer(bytearray(message.ljust(longest)), dtype=torch.uint8).to(device)
    messages = [torch.empty_like(padded) for _ in sizes]
    dist.all_gather(messages, padded)
    return [each[: int(size)].cpu().numpy().tobytes() for each, size in zip(messages, sizes, strict=True)]


class Workers(Protocol):
    """One of `world` workers; a training's engine implements it."""

    rank: int
    world: int
    device: torch.device

    def gathered_parameters(self) -> AbstractContextManager[None]:
        """Context in which every worker has the module's complete parameters."""
        ...


def rank_and_world() -> tuple[int, int]:
    """The rank of this worker and the number of workers."""
    return (dist.get_rank(), dist.get_world_size()) if dist.is_initialized() else (0, 1)


def marked_anywhere(marks: Tensor, workers: Workers) -> Tensor:
    """Elementwise `or` of a bool tensor over all workers."""
    if workers.world == 1:
        return marks
    flags = marks.to(workers.device, torch.uint8)
    dist.all_reduce(flags, op=dist.ReduceOp.MAX)
    return flags.bool().to(marks.device)


def gathered(share: Tensor, count: int, device: torch.device) -> Tensor:
    """All `count` rows, from each worker's share: the rows rank, rank + world, rank + 2 world, …

    device: the device that workers send from.
    """
    rank, world = rank_and_world()
    if world == 1:
        return share
    rows = torch.zeros(count, *share.shape[1:], dtype=share.dtype, device=device)
    rows[rank::world] = share.to(device)
    dist.all_reduce(rows)  # adds zeros, which is exact
    return rows.to(share.device)
