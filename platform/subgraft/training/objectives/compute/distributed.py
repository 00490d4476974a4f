"""Values that must be equal on all workers of a training, and dev sets that are divided among the workers.

Each worker computes complete batches of a dev set. All workers get the same scores, equal to those of a single worker
to the bit: batches are composed as for one worker, and their values are added in the same order.
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
    """Sums of the values of all batches, of which every worker computes a share.

    Args:
        batches: the example indices of each batch.
        values: returns `count` values of a batch.
        device: the device from which workers send.
        count: the number of values.
    """
    (rank, world), rows_of_batches = rank_and_world(), list[Sequence[float]]()
    for start in range(0, len(batches), world):
        # Passes of a sharded model are collective, so a worker without a batch computes the last one and ignores it.
        rows_of_batches.append(values(batches[min(start + rank, len(batches) - 1)]))
    own = torch.tensor(rows_of_batches, dtype=torch.float64).reshape(-1, count)[: len(range(rank, len(batches), world))]
    totals = [0.0] * count
    for batch_values in gather_rows(own, len(batches), device).tolist():
        totals = [total + value for total, value in zip(totals, batch_values, strict=True)]
    return totals


def texts_by_worker(
    texts: Sequence[str],
    lengths: Callable[[], Sequence[int]],
    batch_size: int,
    generate: Callable[[Sequence[str]], list[str]],
    model: nn.Module,
) -> list[str]:
    """The output for each text. Every worker generates a share of the outputs.

    With ZeRO 3 each worker generates all outputs, because forward passes are collective and outputs differ in length.

    Args:
        texts: the inputs.
        lengths: returns the lengths of the texts [n], by which they are sorted; not called if there is one worker.
        batch_size: the number of texts in a batch.
        generate: generates the outputs of texts.
        model: the model that `generate` uses.
    """
    (rank, world), parameters = rank_and_world(), list(model.parameters())
    if world == 1 or any(hasattr(parameter, "ds_id") for parameter in parameters):
        return generate(texts)
    text_lengths = lengths()
    order = sorted(range(len(texts)), key=lambda index: -text_lengths[index])
    chunks = [order[start : start + batch_size] for start in range(0, len(order), batch_size)]
    own = list(chain.from_iterable(chunks[rank::world]))
    outputs = dict(zip(own, generate([texts[index] for index in own]) if own else [], strict=True))
    for other in _all_gather_bytes(json.dumps(outputs).encode(), parameters[0].device):
        outputs |= {int(index): text for index, text in json.loads(other).items()}
    return [outputs[index] for index in range(len(texts))]


def _all_gather_bytes(message: bytes, device: torch.device) -> list[bytes]:
    """The messages of all workers."""
    sizes = [torch.zeros(1, dtype=torch.int64, device=device) for _ in range(dist.get_world_size())]
    dist.all_gather(sizes, torch.tensor([len(message)], device=device))
    longest = max(int(size) for size in sizes)
    padded = torch.frombuffer(bytearray(message.ljust(longest)), dtype=torch.uint8).to(device)
    messages = [torch.empty_like(padded) for _ in sizes]
    dist.all_gather(messages, padded)
    return [gathered[: int(size)].cpu().numpy().tobytes() for gathered, size in zip(messages, sizes, strict=True)]


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


def logical_or_over_workers(marks: Tensor, workers: Workers) -> Tensor:
    """Elementwise `or` of a bool tensor over all workers."""
    if workers.world == 1:
        return marks
    flags = marks.to(workers.device, torch.uint8)
    dist.all_reduce(flags, op=dist.ReduceOp.MAX)
    return flags.bool().to(marks.device)


def gather_rows(share: Tensor, count: int, device: torch.device) -> Tensor:
    """All rows, gathered from the workers.

    Args:
        share: the rows of this worker: rank, rank + world, rank + 2 world, …
        count: the number of rows of all workers.
        device: the device from which workers send.
    """
    rank, world = rank_and_world()
    if world == 1:
        return share
    rows = torch.zeros(count, *share.shape[1:], dtype=share.dtype, device=device)
    rows[rank::world] = share.to(device)
    dist.all_reduce(rows)  # adds zeros, which is exact
    return rows.to(share.device)
