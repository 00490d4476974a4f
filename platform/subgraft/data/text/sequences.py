"""Many token sequences in few arrays, which may be memory-mapped: the form of a tokenised corpus in memory."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

import numpy as np


@dataclass(frozen=True)
class Sequences:
    """n sequences of token ids, as ranges of one array. Truncating and selecting do not copy tokens.

    Attributes:
        flat: All tokens, int32 [total].
        starts, ends: The range of each sequence, int64 [n].
        most: The maximum length of each sequence; None for no limit.
    """

    flat: np.ndarray
    starts: np.ndarray
    ends: np.ndarray
    most: int | None = None

    @classmethod
    def of(cls, sequences: Iterable[list[int]], max_length: int | None = None) -> Sequences:
        """Pack sequences, each truncated to at most max_length tokens."""
        packed = [np.asarray(tokens[:max_length], dtype=np.int32) for tokens in sequences]
        flat = np.concatenate(packed) if packed else np.zeros(0, dtype=np.int32)
        return cls.within(flat, offsets([len(tokens) for tokens in packed]))

    @classmethod
    def within(cls, flat: np.ndarray, bounds: np.ndarray) -> Sequences:
        """Consecutive sequences; `bounds` has the beginning of each, and the end of the last [n + 1]."""
        return cls(flat, bounds[:-1], bounds[1:])

    def __len__(self) -> int:
        return len(self.starts)

    def __getitem__(self, index: int) -> list[int]:
        start, end = self.starts[index], self.ends[index]
        tokens: list[int] = self.flat[start : end if self.most is None else min(end, start + self.most)].tolist()
        return tokens

    @property
    def lengths(self) -> np.ndarray:
        """The length of each sequence, int32 [n]; computed without a larger temporary array."""
        lengths = np.empty(len(self), dtype=np.int32)
        np.subtract(self.ends, self.starts, out=lengths, casting="unsafe")
        return lengths if self.most is None else np.minimum(lengths, self.most, out=lengths)

    @property
    def whole(self) -> np.ndarray:
        """Whether each sequence is complete, not truncated [n]."""
        if self.most is None:
            return np.ones(len(self), dtype=np.bool_)
        return replace(self, most=None).lengths <= self.most

    def longer(self, other: Sequences) -> np.ndarray:
        """The larger length of each pair of sequences [n]."""
        lengths = self.lengths
        np.maximum(lengths, other.lengths, out=lengths)
        return lengths

    def cut(self, max_length: int) -> Sequences:
        """Each sequence truncated to at most max_length tokens."""
        return replace(self, most=max_length if self.most is None else min(max_length, self.most))

    def take(self, places: np.ndarray) -> Sequences:
        """The sequences at these indices [m]."""
        return replace(self, starts=self.starts[places], ends=self.ends[places])


def offsets(lengths: Iterable[int]) -> np.ndarray:
    """The starts of consecutive items of these lengths, and the end of the last [n + 1]."""
    return np.concatenate([np.zeros(1, dtype=np.int64), np.cumsum(np.fromiter(lengths, dtype=np.int64))])


def blocks(costs: np.ndarray, room: int) -> np.ndarray:
    """The starts of blocks of consecutive items, and the end of the last [b + 1].

    Each block takes as many items as fit into `room` by their costs [n], and at least one.
    """
    total = np.cumsum(costs)
    bounds = [0]
    while bounds[-1] < len(costs):
        before = total[bounds[-1] - 1] if bounds[-1] else 0
        bounds.append(max(bounds[-1] + 1, int(np.searchsorted(total, before + room, side="right"))))
    return np.array(bounds, dtype=np.int64)
