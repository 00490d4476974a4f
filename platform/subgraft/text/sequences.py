"""Many token sequences in two arrays: what a tokenised corpus is in memory."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class Sequences:
    """n sequences of token ids: flat [total] int32, offsets [n + 1] int64."""

    flat: np.ndarray
    offsets: np.ndarray

    @classmethod
    def of(cls, sequences: Iterable[list[int]], max_length: int | None = None) -> Sequences:
        """Pack sequences, each cut to at most max_length tokens."""
        packed = [np.asarray(tokens[:max_length], dtype=np.int32) for tokens in sequences]
        offsets = np.zeros(len(packed) + 1, dtype=np.int64)
        np.cumsum([len(tokens) for tokens in packed], out=offsets[1:])
        return cls(np.concatenate(packed) if packed else np.zeros(0, dtype=np.int32), offsets)

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def __getitem__(self, index: int) -> list[int]:
        tokens: list[int] = self.flat[self.offsets[index] : self.offsets[index + 1]].tolist()
        return tokens

    @property
    def lengths(self) -> np.ndarray:
        """Tokens of each sequence [n]."""
        return np.diff(self.offsets)


def blocks(costs: np.ndarray, room: int) -> np.ndarray:
    """Where blocks of consecutive items begin, and the end of the last [b + 1].

    Each takes as many items as `room` holds of their costs [n], and one at least.
    """
    total = np.cumsum(costs)
    bounds = [0]
    while bounds[-1] < len(costs):
        before = total[bounds[-1] - 1] if bounds[-1] else 0
        bounds.append(max(bounds[-1] + 1, int(np.searchsorted(total, before + room, side="right"))))
    return np.array(bounds, dtype=np.int64)
