"""Several texts as one: all their examples, each once per epoch."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Generic, TypeVar

import numpy as np

from subgraft.training.objectives.objective import Examples

E = TypeVar("E")


class Concatenation(Generic[E]):
    """Several sources of examples as one, for example the languages of mBART."""

    def __init__(self, parts: Sequence[Examples[E]]) -> None:
        self._parts = parts
        self._ends = np.cumsum([len(part) for part in parts])

    def __len__(self) -> int:
        return int(self._ends[-1])

    @property
    def lengths(self) -> np.ndarray:
        return np.concatenate([part.lengths for part in self._parts])

    def example(self, index: int, epoch: int) -> E:
        part = int(np.searchsorted(self._ends, index, side="right"))
        before = int(self._ends[part - 1]) if part else 0
        return self._parts[part].example(index - before, epoch)
