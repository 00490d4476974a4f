"""Classes and sets of labels: accuracy, precision, recall, F1 and Matthews correlation, from counts per example.

A class has three counts: true positives, predicted examples, and actual examples. Counts are summed over examples, and
their sums determine all scores here, so a resampled test set is scored from sums. A score whose denominator is 0 is 0,
as in scikit-learn. A mean over classes leaves out classes that occur neither in the predictions nor in the references,
so a class that a resample misses does not lower it.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

from subgraft.evaluation.metrics.calibration import BINS, Calibration, calibration
from subgraft.evaluation.metrics.sentence_statistics import FloatArray

BoolArray = NDArray[np.bool_]
COUNTS = 3  # true positives, predicted, actual


def indicators(values: ArrayLike, classes: int, without: int | None = None) -> BoolArray:
    """Classes as booleans [n, classes], or one fewer.

    Args:
        values: class indices [n], or booleans [n, classes] where an example has any number of labels.
        classes: how many there are.
        without: the index of a class that is left out, such as "no relation".

    Raises:
        ValueError: an index is not in 0 to classes - 1, or the shape is another one.
    """
    array = np.asarray(values)
    if array.ndim == 1:
        if not np.issubdtype(array.dtype, np.integer) or array.min() < 0 or array.max() >= classes:
            raise ValueError(f"class indices must be integers in 0 to {classes - 1}")
        array = array[:, None] == np.arange(classes)
    if array.dtype != np.bool_ or array.shape[1:] != (classes,):
        raise ValueError(f"labels must be booleans [n, {classes}], not {array.dtype} {list(array.shape)}")
    return array if without is None else np.delete(array, without, axis=1)


def accuracy_counts(predictions: ArrayLike, references: ArrayLike) -> FloatArray:
    """Whether the class, or every label, of an example is correct, and 1: two of [n] or [n, classes] to [n, 2]."""
    correct = np.asarray(predictions) == np.asarray(references)
    correct = correct if correct.ndim == 1 else correct.all(axis=1)
    return np.stack([correct, np.ones_like(correct)], axis=1).astype(np.float64)


def pooled_counts(predictions: BoolArray, references: BoolArray) -> FloatArray:
    """Counts of all labels together, [n, classes] twice to [n, 3]."""
    sides = (predictions & references, predictions, references)
    return np.stack([side.sum(axis=1) for side in sides], axis=1).astype(np.float64)


def class_counts(predictions: BoolArray, references: BoolArray) -> FloatArray:
    """Counts by class, [n, classes] twice to [n, 3 · classes]; the three of a class are adjacent."""
    counts = np.stack([predictions & references, predictions, references], axis=2)
    return counts.reshape(len(counts), -1).astype(np.float64)


def loose_counts(predictions: BoolArray, references: BoolArray) -> FloatArray:
    """Precision and recall of each example, [n, classes] twice to [n, 4] (Ling and Weld 2012, "loose macro").

    Precision is averaged over examples with a prediction and recall over those with a label, so each comes with a
    count of 0 or 1.
    """
    correct, predicted, actual = pooled_counts(predictions, references).T
    has_prediction, has_label = predicted > 0, actual > 0
    return np.stack([divide(correct, predicted), has_prediction, divide(correct, actual), has_label], axis=1).astype(
        np.float64
    )


def divide(numerator: FloatArray, denominator: FloatArray) -> FloatArray:
    """The quotient; 0 where the denominator is 0."""
    return np.asarray(np.where(denominator > 0, numerator / np.where(denominator > 0, denominator, 1.0), 0.0))


def mean(sums: FloatArray) -> FloatArray:
    """A mean in points, from sums [..., 2] of values and their number."""
    return 100 * divide(sums[..., 0], sums[..., 1])


def precision(sums: FloatArray) -> FloatArray:
    """Precision in points, from sums [..., 3]."""
    return 100 * divide(sums[..., 0], sums[..., 1])


def recall(sums: FloatArray) -> FloatArray:
    """Recall in points, from sums [..., 3]."""
    return 100 * divide(sums[..., 0], sums[..., 2])


def f1(sums: FloatArray) -> FloatArray:
    """F1 in points, from sums [..., 3]."""
    return 200 * divide(sums[..., 0], sums[..., 1] + sums[..., 2])


def f1_by_class(sums: FloatArray) -> FloatArray:
    """F1 of each class in points, from sums [..., 3 · classes] to [..., classes]."""
    return f1(_by_class(sums))


def f1_macro(sums: FloatArray) -> FloatArray:
    """The mean F1 in points of the classes that occur, from sums [..., 3 · classes]."""
    occurs = _by_class(sums)[..., 1:].any(axis=-1)
    return divide(f1_by_class(sums).sum(axis=-1), occurs.sum(axis=-1).astype(np.float64))


def loose_f1(sums: FloatArray) -> FloatArray:
    """The harmonic mean, in points, of mean precision and mean recall, from sums [..., 4]."""
    mean_precision, mean_recall = divide(sums[..., 0], sums[..., 1]), divide(sums[..., 2], sums[..., 3])
    return 200 * divide(mean_precision * mean_recall, mean_precision + mean_recall)


def matthews(sums: FloatArray) -> FloatArray:
    """Matthews correlation in points, from sums [..., 3 · classes] of one class per example (Gorodkin 2004, R_K)."""
    correct, predicted, actual = np.moveaxis(_by_class(sums), -1, 0)
    examples = predicted.sum(axis=-1)
    covariance = correct.sum(axis=-1) * examples - (predicted * actual).sum(axis=-1)
    variances = (examples**2 - (predicted**2).sum(axis=-1)) * (examples**2 - (actual**2).sum(axis=-1))
    return 100 * divide(covariance, np.sqrt(variances))


def confusion(predictions: ArrayLike, references: ArrayLike, classes: int) -> NDArray[np.int64]:
    """How many examples of each class (row) were predicted as each class (column): [n] twice to [classes, classes]."""
    actual, predicted = (indicators(side, classes).argmax(axis=1) for side in (references, predictions))
    return np.bincount(actual * classes + predicted, minlength=classes**2).reshape(classes, classes)


def class_calibration(probabilities: ArrayLike, references: Sequence[int], bins: int = BINS) -> Calibration:
    """Expected calibration error of the most probable class (Guo et al. 2017, equation 3); its `tokens` are examples.

    Args:
        probabilities: [n, classes], each row adding up to one; of equal ones the first class is predicted.
        references: n class indices.
        bins: how many bins of equal width.
    """
    table = np.asarray(probabilities, dtype=np.float64)
    correct = table.argmax(axis=1) == np.asarray(references)
    # Rounding may make a probability exceed 1.
    return calibration(np.minimum(table.max(axis=1), 1.0).tolist(), correct.tolist(), bins)


def _by_class(sums: FloatArray) -> FloatArray:
    return sums.reshape(*sums.shape[:-1], -1, COUNTS)
