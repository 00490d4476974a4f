"""Inference ECE: are generated tokens as often right as the model is sure of them?

Wang, Tu, Shi and Liu (ACL 2020), "On the Inference Calibration of Neural Machine Translation", section 3: tokens of the
output are labelled by their TER alignment with the reference, both cut by the model's own tokenizer, and the expected
calibration error is taken over bins of confidence. Rows of different vocabularies are therefore measured on different
tokens, as the paper does. The end of a sentence is not counted.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from subgraft.evaluation.metrics.ter_alignment import correct_tokens

BINS = 20


@dataclass(frozen=True)
class Bin:
    """Tokens of confidence in [low, high), the last bin closed: how many, their mean confidence, the share right."""

    low: float
    high: float
    count: int
    confidence: float | None
    accuracy: float | None


@dataclass(frozen=True)
class Calibration:
    """The expected calibration error of tokens, in 0 to 1 (lower is better), with what it comes from.

    error: the mean over tokens of |accuracy - confidence| of their bin.
    """

    error: float
    confidence: float
    accuracy: float
    tokens: int
    bins: tuple[Bin, ...]


def calibration(confidences: Sequence[float], correct: Sequence[bool], bins: int = BINS) -> Calibration:
    """Calibration of tokens, over bins of equal width.

    Args:
        confidences: n probabilities in 0 to 1.
        correct: n labels.

    Raises:
        ValueError: there are no tokens, or the counts differ.
    """
    if len(confidences) != len(correct) or not confidences:
        raise ValueError(f"calibration of {len(confidences)} confidences and {len(correct)} labels")
    sure, right = np.asarray(confidences, dtype=np.float64), np.asarray(correct, dtype=np.float64)
    chosen = np.minimum((sure * bins).astype(int), bins - 1)
    counts = np.bincount(chosen, minlength=bins)
    sums, hits = (np.bincount(chosen, weights=values, minlength=bins) for values in (sure, right))
    kept = tuple(
        Bin(i / bins, (i + 1) / bins, int(n), float(sums[i] / n) if n else None, float(hits[i] / n) if n else None)
        for i, n in enumerate(counts)
    )
    error = float(np.abs(hits - sums).sum() / len(sure))
    return Calibration(error, float(sure.mean()), float(right.mean()), len(sure), kept)


def inference_calibration(
    outputs: Sequence[Sequence[int]],
    probabilities: Sequence[Sequence[float]],
    references: Sequence[Sequence[int]],
    bins: int = BINS,
) -> Calibration | None:
    """Calibration of generated tokens; None if nothing was generated at all.

    Args:
        outputs: token ids of each output, without start and end.
        probabilities: of each of those tokens, given the source and the tokens before it.
        references: token ids of each reference in the same vocabulary.
    """
    correct: list[bool] = []
    for output, reference in zip(outputs, references, strict=True):
        correct += correct_tokens(output, reference)
    confidences = [probability for sentence in probabilities for probability in sentence]
    return calibration(confidences, correct, bins) if correct else None
