"""Parallel streams of documents: each batch has the next block of every stream.

The blocks of a document follow each other in one stream. The order of documents is a function of (seed, epoch).
"""

from __future__ import annotations

import heapq
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple, Protocol, runtime_checkable

import numpy as np

if TYPE_CHECKING:
    from subgraft.training.progress import BatchCallback

# These stand for the missing block before the first one of a document, and for a missing position.
NO_BLOCK = NO_POSITION = -1


class _Epoch(NamedTuple):
    """batches: the blocks of each.  streams: the stream of each block [n]."""

    batches: list[np.ndarray]
    streams: np.ndarray


@dataclass(frozen=True)
class StreamPlan:
    """Batches of `width` streams. At the end of an epoch streams run out, so the last batches are smaller.

    Attributes:
        costs: the costs of the blocks [n].
        starts: the first block of each document, and the end of the last [D + 1].
        width: the number of streams.
        seed: the seed of the order of documents.
        backwards: returns, for an epoch, which documents are read from their last block to the first [D].
    """

    costs: np.ndarray
    starts: np.ndarray
    width: int
    seed: int
    backwards: Callable[[int], np.ndarray]

    @property
    def lengths(self) -> np.ndarray:
        return self.costs

    def epoch(self, epoch: int, first_step: int = 0) -> list[np.ndarray]:
        """The batches of an epoch: every block once, the blocks of a document in consecutive batches."""
        del first_step  # the number of streams never changes
        return self._epoch_plan(epoch).batches

    def streams(self, epoch: int) -> np.ndarray:
        """The stream of each block in an epoch [n]."""
        return self._epoch_plan(epoch).streams

    def before(self, blocks: np.ndarray, epoch: int) -> np.ndarray:
        """The block of the same document that is read before each; NO_BLOCK where there is none."""
        documents = np.searchsorted(self.starts, blocks, side="right") - 1
        back = self.backwards(epoch)[documents]
        first = np.where(back, blocks + 1 == self.starts[documents + 1], blocks == self.starts[documents])
        return np.where(first, NO_BLOCK, np.where(back, blocks + 1, blocks - 1))

    def largest(self) -> list[np.ndarray]:
        """The batches of the first epoch, for choosing the one that needs most memory."""
        return self.epoch(0)

    def parts(self, batch: np.ndarray) -> list[np.ndarray]:
        """The parts of a batch that are computed separately: one."""
        return [batch]

    @cached_property
    def _cache(self) -> dict[int, _Epoch]:
        return {}

    def _epoch_plan(self, epoch: int) -> _Epoch:
        if epoch not in self._cache:
            self._cache.clear()
            self._cache[epoch] = self._compose(epoch)
        return self._cache[epoch]

    def _compose(self, epoch: int) -> _Epoch:
        """Assign documents, in a random order, to the stream that is free first."""
        sizes, back = np.diff(self.starts), self.backwards(epoch)
        step, stream = np.zeros(len(self.costs), dtype=np.int64), np.zeros(len(self.costs), dtype=np.int64)
        free = [(0, number) for number in range(self.width)]
        for document in np.random.default_rng([self.seed, epoch]).permutation(len(sizes)).tolist():
            start, number = heapq.heappop(free)
            first, size = int(self.starts[document]), int(sizes[document])
            steps = np.arange(start, start + size)
            step[first : first + size] = steps[::-1] if back[document] else steps
            stream[first : first + size] = number
            heapq.heappush(free, (start + size, number))
        order = np.lexsort([stream, step])
        ends = np.cumsum(np.bincount(step))
        return _Epoch(np.split(order, ends[:-1]), stream)


@runtime_checkable
class StreamedData(Protocol):
    """Examples in streams, with the memory that their loss fills and that checkpoints include."""

    @property
    def plan(self) -> StreamPlan: ...

    @property
    def memory(self) -> BatchCallback: ...
