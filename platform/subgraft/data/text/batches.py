"""Batches of similar lengths, in an order that depends only on (seed, epoch), so that resuming is exact."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TypeVar, overload

import numpy as np

Item = TypeVar("Item")
# Sentences are sorted by length within pools of this many batches: little padding, and still a random order.
POOL_BATCHES = 50


def evenly_spaced(items: Sequence[Item], count: int | None) -> Sequence[Item]:
    """`count` of the items, evenly spaced and in their order; all of them if count is None or there are fewer."""
    if count is None or count >= len(items):
        return items
    return [items[place] for place in evenly_spaced_places(len(items), count).tolist()]


def evenly_spaced_places(whole: int, count: int) -> np.ndarray:
    """Where they are among `whole` items [count]."""
    return np.arange(count, dtype=np.int64) * whole // count


class Batches(Sequence[np.ndarray]):
    """Arrays of example indices, stored as ranges of one array: 4 or 8 bytes per example and 16 per batch.

    Args:
        order: The examples [n].
        starts, ends: The range of each batch in `order` [b].
    """

    def __init__(self, order: np.ndarray, starts: np.ndarray, ends: np.ndarray) -> None:
        self._order, self.starts, self.ends = order, starts, ends

    def __len__(self) -> int:
        return len(self.starts)

    @overload
    def __getitem__(self, index: int) -> np.ndarray: ...
    @overload
    def __getitem__(self, index: slice) -> Batches: ...
    def __getitem__(self, index: int | slice) -> np.ndarray | Batches:
        if isinstance(index, slice):
            return Batches(self._order, self.starts[index], self.ends[index])
        return self._order[self.starts[index] : self.ends[index]].astype(np.int64, copy=False)

    def take(self, places: np.ndarray) -> Batches:
        """The batches at these indices [m]."""
        return Batches(self._order, self.starts[places], self.ends[places])


@dataclass(frozen=True)
class BatchPlan:
    """How examples are divided into global batches.

    Attributes:
        lengths: The cost of each example [n], in tokens or characters.
        size: The maximum of the longest example times the number of examples in a batch, so padding counts.
        seed: The seed of the order.
    """

    lengths: np.ndarray
    size: int
    seed: int

    def epoch(self, epoch: int) -> Batches:
        """The batches of an epoch: arrays of example indices, each example exactly once."""
        return compose(self, epoch, np.empty(len(self.lengths), dtype=np.int64))


def compose(plan: BatchPlan, epoch: int, order: np.ndarray) -> Batches:
    """The batches of an epoch. `order` [n] is overwritten with the examples' indices; its type has no effect."""
    generator, lengths = np.random.default_rng([plan.seed, epoch]), plan.lengths
    order[:] = np.arange(len(order), dtype=order.dtype)
    generator.shuffle(order)
    mean = float(lengths.mean()) if len(lengths) else 1.0
    pool = max(1, int(POOL_BATCHES * plan.size / max(mean, 1.0)))
    ends = [np.zeros(0, dtype=np.int64)]
    for start in range(0, len(order), pool):
        indices = order[start : start + pool]
        by_length = np.argsort(lengths[indices], kind="stable")
        order[start : start + pool] = indices[by_length]
        sorted_lengths = lengths[order[start : start + pool]]
        ends.append(np.array(list(_ends(sorted_lengths.tolist(), plan.size)), dtype=np.int64) + start)
    end = np.concatenate(ends)
    batches = Batches(order, np.concatenate([np.zeros(1, dtype=np.int64), end])[:-1], end)
    return batches.take(generator.permutation(len(batches)))


def cut_by_size(indices: np.ndarray, lengths: np.ndarray, size: int) -> Iterator[np.ndarray]:
    """Consecutive runs of `indices` whose longest example times their number stays within `size` (at least one)."""
    start = 0
    for end in _ends(lengths[indices].tolist(), size):
        yield indices[start:end]
        start = end


def _ends(lengths: Sequence[int], size: int) -> Iterator[int]:
    """The ends of the runs of `cut_by_size`."""
    start, longest = 0, 0
    for position, length in enumerate(lengths):
        longest = max(longest, length)
        if position > start and longest * (position - start + 1) > size:
            yield position
            start, longest = position, length
    if start < len(lengths):
        yield len(lengths)


def share_of_worker(micro_batches: Sequence[np.ndarray], rank: int, world: int) -> list[np.ndarray]:
    """The part of each micro-batch that one of `world` workers computes; it may be empty."""
    return [batch[rank::world] for batch in micro_batches]
