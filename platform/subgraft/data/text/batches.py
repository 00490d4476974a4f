"""Batches of similar lengths, in an order that depends only on (seed, epoch), so that resuming is exact.

For a large corpus, batches and the costs of examples are in memory-mapped files, created once for all workers:

    <folder>/<key>/costs.bin     [n], the cost of each example

    <folder>/<key>/order.bin     int32 or int64 [n], the examples, batch after batch
    <folder>/<key>/starts.bin    int64 [b], where each batch begins among them, in the order of the epoch
    <folder>/<key>/ends.bin      int64 [b]

The key of batches is a digest of all inputs of composing them, costs included. See `mapped_arrays`.
"""

from __future__ import annotations

import hashlib
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Self, TypeVar, overload

import numpy as np

from subgraft.base.digest_cache import DigestCache
from subgraft.data.text.mapped_arrays import MappedArrays

Item = TypeVar("Item")
# Sentences are sorted by length within pools of this many batches: little padding, and still a random order.
POOL_BATCHES = 50


def evenly_spaced(items: Sequence[Item], count: int | None) -> Sequence[Item]:
    """`count` of the items, evenly spaced and in their order; all of them if count is None or there are fewer."""
    if count is None or count >= len(items):
        return items
    return [items[index] for index in evenly_spaced_places(len(items), count).tolist()]


def evenly_spaced_places(total: int, count: int) -> np.ndarray:
    """The indices of `count` evenly spaced items among `total` items [count]."""
    return np.arange(count, dtype=np.int64) * total // count


class Selectable(Sequence[Item], ABC):
    """A sequence of which any part can be selected; a slice is one too."""

    @abstractmethod
    def take(self, places: np.ndarray) -> Self:
        """The items at these indices [m], in this order."""

    @abstractmethod
    def _item(self, index: int) -> Item:
        """The item at an index from 0."""

    @overload
    def __getitem__(self, index: int) -> Item: ...
    @overload
    def __getitem__(self, index: slice) -> Self: ...
    def __getitem__(self, index: int | slice) -> Item | Self:
        if isinstance(index, slice):
            return self.take(np.arange(len(self))[index])
        if not -len(self) <= index < len(self):
            raise IndexError(index)
        return self._item(index % len(self))


class Batches(Selectable[np.ndarray]):
    """Arrays of example indices, stored as ranges of one array: 4 or 8 bytes per example and 16 per batch.

    Args:
        order: The examples [n].
        starts, ends: The range of each batch in `order` [b].
    """

    def __init__(self, order: np.ndarray, starts: np.ndarray, ends: np.ndarray) -> None:
        self._order, self.starts, self.ends = order, starts, ends

    def __len__(self) -> int:
        return len(self.starts)

    def _item(self, index: int) -> np.ndarray:
        return self._order[self.starts[index] : self.ends[index]].astype(np.int64, copy=False)

    def take(self, places: np.ndarray) -> Self:
        return type(self)(self._order, self.starts[places], self.ends[places])

    def of(self, examples: np.ndarray) -> Self:
        """Batches in which each index i is replaced by examples[i] [n]."""
        return type(self)(examples[self._order], self.starts, self.ends)


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


# Batches of fewer examples are composed faster than they are looked up in files.
MIN_EXAMPLES = 1_000_000
_FORMAT = 1


@dataclass(frozen=True)
class BatchFiles:
    """The files of a training's batches, used for at least `min_examples` examples."""

    folder: Path
    min_examples: int = MIN_EXAMPLES

    def costs(self, costs: np.ndarray) -> np.ndarray:
        """The costs of examples [n], from a file if there are many, so the argument can be freed."""
        if len(costs) < self.min_examples:
            return costs
        inputs = {"format": _FORMAT, "what": "costs", "type": costs.dtype.str, "content": _digest(costs)}
        types, digests = {"costs": costs.dtype.type}, DigestCache(self.folder)
        arrays = MappedArrays(self.folder, inputs, types, digests, "writes the same lengths")
        return arrays.load_or_create(lambda files: costs.tofile(files["costs"]))["costs"]

    def epoch(self, plan: BatchPlan, epoch: int) -> Batches:
        """The plan's batches of an epoch, from files if there are many examples."""
        if len(plan.lengths) < self.min_examples:
            return plan.epoch(epoch)
        inputs = {"format": _FORMAT, "numpy": np.__version__, "lengths": _digest(plan.lengths), "size": plan.size}
        inputs |= {"seed": plan.seed, "epoch": epoch}
        dtype = np.int32 if len(plan.lengths) <= np.iinfo(np.int32).max else np.int64
        types = {"order": dtype, "starts": np.int64, "ends": np.int64}
        arrays = MappedArrays(self.folder, inputs, types, DigestCache(self.folder), "composes the same batches")
        return Batches(**arrays.load_or_create(lambda files: _write(files, plan, epoch, dtype)))


def _digest(array: np.ndarray) -> str:
    return hashlib.sha256(np.ascontiguousarray(array).data).hexdigest()


def _write(files: Mapping[str, Path], plan: BatchPlan, epoch: int, dtype: type[np.generic]) -> None:
    order = np.memmap(files["order"], dtype=dtype, mode="w+", shape=len(plan.lengths)).view(np.ndarray)
    batches = compose(plan, epoch, order)
    batches.starts.tofile(files["starts"])
    batches.ends.tofile(files["ends"])
