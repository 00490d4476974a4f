"""Several objectives as one: all their examples, each once per epoch."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from subgraft.objectives.seq2seq import Example, Objective


class Mixture:
    """The concatenation of objectives, as of mBART's languages."""

    def __init__(self, parts: Sequence[Objective]) -> None:
        self._parts = parts
        self._ends = np.cumsum([len(part) for part in parts])

    def __len__(self) -> int:
        return int(self._ends[-1])

    @property
    def lengths(self) -> np.ndarray:
        return np.concatenate([part.lengths for part in self._parts])

    def example(self, index: int, epoch: int) -> Example:
        part = int(np.searchsorted(self._ends, index, side="right"))
        before = int(self._ends[part - 1]) if part else 0
        return self._parts[part].example(index - before, epoch)
