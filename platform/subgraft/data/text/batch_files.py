"""Batches of an epoch, and what examples cost, in files: made once for all workers of a training; mapped, not held.

    <folder>/<key>/costs.bin     [n], what each example costs

    <folder>/<key>/order.bin     int32 or int64 [n], the examples, batch after batch
    <folder>/<key>/starts.bin    int64 [b], where each batch begins among them, in the order of the epoch
    <folder>/<key>/ends.bin      int64 [b]

The key of batches is made of all that composing depends on, what examples cost included. See `mapped_arrays`.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from subgraft.base.digest_cache import DigestCache
from subgraft.data.text.batches import Batches, BatchPlan, compose
from subgraft.data.text.mapped_arrays import MappedArrays

# Of fewer examples it takes less time to compose batches than to find them.
LEAST = 1_000_000
_FORMAT = 1


@dataclass(frozen=True)
class BatchFiles:
    """The files of a training's batches, used from `least` examples on."""

    folder: Path
    least: int = LEAST

    def costs(self, costs: np.ndarray) -> np.ndarray:
        """The costs of examples [n], from a file if there are many, so the argument can be freed."""
        if len(costs) < self.least:
            return costs
        made_of = {"format": _FORMAT, "what": "costs", "type": costs.dtype.str, "content": _digest(costs)}
        types, digests = {"costs": costs.dtype.type}, DigestCache(self.folder)
        arrays = MappedArrays(self.folder, made_of, types, digests, "writes the same lengths")
        return arrays.made_by(lambda files: costs.tofile(files["costs"]))["costs"]

    def epoch(self, plan: BatchPlan, epoch: int) -> Batches:
        """The plan's batches of an epoch, from files if there are many examples."""
        if len(plan.lengths) < self.least:
            return plan.epoch(epoch)
        made_of = {"format": _FORMAT, "numpy": np.__version__, "lengths": _digest(plan.lengths), "size": plan.size}
        made_of |= {"seed": plan.seed, "epoch": epoch}
        number = np.int32 if len(plan.lengths) <= np.iinfo(np.int32).max else np.int64
        types = {"order": number, "starts": np.int64, "ends": np.int64}
        arrays = MappedArrays(self.folder, made_of, types, DigestCache(self.folder), "composes the same batches")
        return Batches(**arrays.made_by(lambda files: _write(files, plan, epoch, number)))


def _digest(array: np.ndarray) -> str:
    return hashlib.sha256(np.ascontiguousarray(array).data).hexdigest()


def _write(files: Mapping[str, Path], plan: BatchPlan, epoch: int, number: type[np.generic]) -> None:
    order = np.memmap(files["order"], dtype=number, mode="w+", shape=len(plan.lengths)).view(np.ndarray)
    batches = compose(plan, epoch, order)
    batches.starts.tofile(files["starts"])
    batches.ends.tofile(files["ends"])
