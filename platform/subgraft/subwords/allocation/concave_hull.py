"""The concave hull of a language's gain over its cost: what a greedy choice, and a bound on it, go by.

A curve's increments are not always decreasing. The slopes of its hull are those that isotonic regression fits to its
own: pooling adjacent violators (Barlow et al., 1972) is how either is found.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from sklearn.isotonic import isotonic_regression


@dataclass(frozen=True)
class Hull:
    """points: indices of those on the hull, by rising cost.  costs, values: of these. The slopes between them fall."""

    points: tuple[int, ...]
    costs: NDArray[np.float64]
    values: NDArray[np.float64]

    @property
    def slopes(self) -> NDArray[np.float64]:
        slopes: NDArray[np.float64] = np.diff(self.values) / np.diff(self.costs)
        return slopes


def concave_hull(costs: Sequence[float], values: Sequence[float]) -> Hull:
    """The hull of the points that no other beats, being at least as cheap and worth more."""
    front: list[int] = []
    for at in sorted(range(len(costs)), key=lambda at: (costs[at], -values[at])):
        if not front or values[at] > values[front[-1]]:
            front.append(at)
    x, y = np.array([costs[at] for at in front], dtype=float), np.array([values[at] for at in front], dtype=float)
    if len(front) > 2:
        widths = np.diff(x)
        fitted = isotonic_regression(np.diff(y) / widths, sample_weight=widths, increasing=False)
        # A point where the slope stays the same is inside a pooled block, under the hull.
        kept = np.concatenate([[True], ~np.isclose(fitted[1:], fitted[:-1], rtol=1e-12, atol=0), [True]])
        front, x, y = [at for at, on in zip(front, kept, strict=True) if on], x[kept], y[kept]
    return Hull(tuple(front), x, y)
