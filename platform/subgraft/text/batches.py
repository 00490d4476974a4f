"""Batches composed by length, in an order that is a function of (seed, epoch) alone, so that resume is exact."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TypeVar

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


@dataclass(frozen=True)
class BatchPlan:
    """How examples of given lengths are cut into global batches.

    lengths: [n] what each example costs, padding included in the same unit (tokens or characters).
    size: the most that the longest example times the number of examples of a batch may come to.
    """

    lengths: np.ndarray
    size: int
    seed: int

    def epoch(self, epoch: int) -> list[np.ndarray]:
        """The batches of an epoch: arrays of example indices, each example exactly once."""
        generator = np.random.default_rng([self.seed, epoch])
        order = generator.permutation(len(self.lengths))
        mean = float(self.lengths.mean()) if len(self.lengths) else 1.0
        pool = max(1, int(POOL_BATCHES * self.size / max(mean, 1.0)))
        batches: list[np.ndarray] = []
        for start in range(0, len(order), pool):
            batches.extend(self._cut(order[start : start + pool]))
        return [batches[i] for i in generator.permutation(len(batches))]

    def _cut(self, indices: np.ndarray) -> Iterator[np.ndarray]:
        by_length = indices[np.argsort(self.lengths[indices], kind="stable")]
        yield from cut_by_size(by_length, self.lengths, self.size)


def cut_by_size(indices: np.ndarray, lengths: np.ndarray, size: int) -> Iterator[np.ndarray]:
    """Consecutive runs of `indices` whose longest example times their number stays within `size` (at least one)."""
    start, longest = 0, 0
    for position, index in enumerate(indices):
        longest = max(longest, int(lengths[index]))
        if position > start and longest * (position - start + 1) > size:
            yield indices[start:position]
            start, longest = position, int(lengths[index])
    if start < len(indices):
        yield indices[start:]


def share_of_worker(micro_batches: Sequence[np.ndarray], rank: int, world: int) -> list[np.ndarray]:
    """What one of `world` workers computes of each micro-batch; every worker gets a part of every one, maybe empty."""
    return [batch[rank::world] for batch in micro_batches]
