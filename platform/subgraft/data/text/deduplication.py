"""A set of 64-bit digests for deduplication: eight bytes each, on disk if there are many.

Digests are stored in sorted runs. A new run is merged with the previous one until that is more than twice as large, so
there are few runs, and each digest is moved O(log n) times.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path

import numpy as np

# The number of digests that are merged at once, 32 MiB. Longer runs are stored in files if there is a folder for them.
AT_ONCE = 1 << 22


class SegmentDigests:
    """A set of uniformly distributed digests, uint64.

    Args:
        folder: For long runs, in anonymous files, so a killed process leaves nothing behind. None: in memory.
    """

    def __init__(self, folder: Path | None = None) -> None:
        self._folder = folder
        self._runs: list[np.ndarray] = []

    @classmethod
    def of(cls, digests: Iterable[np.ndarray], folder: Path | None = None) -> SegmentDigests:
        """A set of the digests in several arrays [n]."""
        seen = cls(folder)
        for array in digests:
            seen.new(array)
        return seen

    def __len__(self) -> int:
        return sum(map(len, self._runs))

    def has(self, digests: np.ndarray) -> np.ndarray:
        """Membership of each digest [n]."""
        repeated = np.zeros(len(digests), dtype=bool)
        order = np.argsort(digests)  # neighbours are looked up in the same place of a run
        ordered = digests[order]
        for run in self._runs:
            positions = np.minimum(np.searchsorted(run, ordered), len(run) - 1)
            repeated[order] |= run[positions] == ordered
        return repeated

    def new(self, digests: np.ndarray) -> np.ndarray:
        """Whether each digest [n] occurs for the first time, in the set and among themselves; adds all of them."""
        values, first = np.unique(digests, return_index=True)
        unseen = ~self.has(values)
        self._add(values[unseen])
        new = np.zeros(len(digests), dtype=bool)
        new[first[unseen]] = True
        return new

    def _add(self, run: np.ndarray) -> None:
        if not len(run):
            return
        while self._runs and len(self._runs[-1]) <= 2 * len(run):
            run = self._merge(self._runs.pop(), run)
        self._runs.append(run)

    def _merge(self, one: np.ndarray, other: np.ndarray) -> np.ndarray:
        if self._folder is None or len(one) + len(other) <= AT_ONCE:
            return np.concatenate(list(_blocks(one, other)))
        with tempfile.TemporaryFile(dir=self._folder) as file:
            for block in _blocks(one, other):
                file.write(block.data)
            file.flush()
            return np.memmap(file, dtype=np.uint64, mode="r").view(np.ndarray)


def _blocks(one: np.ndarray, other: np.ndarray) -> Iterator[np.ndarray]:
    """Both runs merged, in blocks of about AT_ONCE: equal ranges of digests have about equal sizes."""
    parts = (len(one) + len(other)) // AT_ONCE + 1
    bounds = np.array([(1 << 64) * part // parts for part in range(1, parts)], dtype=np.uint64)
    cuts = [[0, *np.searchsorted(run, bounds).tolist(), len(run)] for run in (one, other)]
    for part in range(parts):
        pieces = [run[cut[part] : cut[part + 1]] for run, cut in zip((one, other), cuts, strict=True)]
        yield np.sort(np.concatenate(pieces), kind="stable")
