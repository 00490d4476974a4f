"""Drift: how far a training moves parameters from their initial values (Ziegler et al. 2019, figure 2)."""

from __future__ import annotations

from collections.abc import Iterable
from math import sqrt

import numpy as np
from numpy.typing import NDArray

# The name under which the drift of feed-forward weights is recorded, which figure 2 is about.
FEED_FORWARD = "drift_feed_forward"


def root_median_squared(now: Iterable[NDArray[np.floating]], before: Iterable[NDArray[np.floating]]) -> float:
    """The root of the median of squared differences, over the numbers of all tensors together.

    Unlike a mean, it describes most numbers: a few that move far do not count. Raises ValueError where the tensors
    do not pair up.
    """
    pairs = zip(now, before, strict=True)
    squared = [np.square(new.astype(np.float64) - old).ravel() for new, old in pairs]
    return sqrt(float(np.median(np.concatenate(squared))))
