"""Predicted numbers: Pearson's and Spearman's correlation and squared errors, from moments of each example.

Values are centred before their moments are taken, which changes no correlation and loses no digits to a large mean.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from subgraft.base.errors import UserError
from subgraft.evaluation.metrics.sentence_statistics import FloatArray

# A zero variance may remain as up to this share of the sum of squares, through rounding.
_ROUNDING = 1e-13


def require_finite(values: ArrayLike, kind: str) -> FloatArray:
    """The values as floats. Raises UserError if one is NaN or infinite, as of a model that diverged."""
    array = np.asarray(values, dtype=np.float64)
    if not np.isfinite(array).all():
        raise UserError(f"NaN or infinity among the {kind}", hint="did the training diverge? see its learning curve")
    return array


def moments(predictions: ArrayLike, references: ArrayLike) -> FloatArray:
    """Moments [n, 6] of n pairs x, y: one, x, y, x², y², xy.

    Only moments of the same call may be added: each call centres its values.
    """
    x, y = _centre(require_finite(predictions, "predictions")), _centre(require_finite(references, "references"))
    return np.stack([np.ones_like(x), x, y, x * x, y * y, x * y], axis=1)


def rank_moments(predictions: ArrayLike, references: ArrayLike) -> FloatArray:
    """Moments [n, 6] of the ranks of values, for Spearman's correlation.

    Ranks are those of the whole set, and equal values share their average rank. A resample keeps these ranks: it is
    scored by the correlation of the ranks that its examples had in the whole set.
    """
    return moments(*(_rank(require_finite(side, "values")) for side in (predictions, references)))


def squared_errors(predictions: ArrayLike, references: ArrayLike) -> FloatArray:
    """The squared error of each example, and one: [n, 2]."""
    errors = (require_finite(predictions, "predictions") - require_finite(references, "references")) ** 2
    return np.stack([errors, np.ones_like(errors)], axis=1)


def correlation(sums: FloatArray) -> FloatArray:
    """Pearson's correlation, times 100, from summed moments [..., 6]; 0 where either side is constant."""
    n, x, y, xx, yy, xy = np.moveaxis(sums, -1, 0)
    of_x, of_y = n * xx - x * x, n * yy - y * y
    defined = (of_x > _ROUNDING * n * xx) & (of_y > _ROUNDING * n * yy)
    scale = np.sqrt(np.where(defined, of_x, 1.0)) * np.sqrt(np.where(defined, of_y, 1.0))
    return np.where(defined, 100 * np.clip((n * xy - x * y) / scale, -1, 1), 0.0)


def mean_squared_error(sums: FloatArray) -> FloatArray:
    """The mean squared error in the values' unit squared, from sums [..., 2]."""
    return np.asarray(sums[..., 0] / sums[..., 1])


def root_mean_squared_error(sums: FloatArray) -> FloatArray:
    """The root of the mean squared error in the values' unit, from sums [..., 2]."""
    return np.sqrt(mean_squared_error(sums))


def _centre(values: FloatArray) -> FloatArray:
    # The median of equal values is exactly their value, unlike their mean: a constant becomes exact zeros.
    return values - np.median(values)


def _rank(values: FloatArray) -> FloatArray:
    _, inverse, counts = np.unique(values, return_inverse=True, return_counts=True)
    return np.asarray((np.cumsum(counts) - (counts - 1) / 2)[inverse], dtype=np.float64)
