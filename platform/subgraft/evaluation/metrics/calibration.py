"""Inference ECE: whether the probability of generated tokens matches how often they are right.

Wang, Tu, Shi and Liu (ACL 2020), "On the Inference Calibration of Neural Machine Translation", section 3: tokens of the
output are labelled by their TER alignment with the reference, both segmented by the model's own tokenizer, and the
expected calibration error is computed over bins of confidence. As in the paper, systems with different vocabularies are
measured on different tokens. The end of a sentence is not counted.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

BINS = 20


@dataclass(frozen=True)
class Bin:
    """Tokens with a confidence in [low, high); the last bin is closed. None: the mean of an empty bin."""

    low: float
    high: float
    count: int
    confidence: float | None
    accuracy: float | None


@dataclass(frozen=True)
class Calibration:
    """The calibration of tokens.

    Attributes:
        error: Expected calibration error, 0 to 1, lower is better: the mean over tokens of their bin's
            |accuracy - confidence|.
        confidence: The mean confidence.
        accuracy: The share of correct tokens.
    """

    error: float
    confidence: float
    accuracy: float
    tokens: int
    bins: tuple[Bin, ...]


def calibration(confidences: Sequence[float], correct: Sequence[bool], bins: int = BINS) -> Calibration:
    """Calibration of tokens with these probabilities, over bins of equal width.

    Raises ValueError if there are no tokens, or the counts differ.
    """
    if len(confidences) != len(correct) or not confidences:
        raise ValueError(f"calibration of {len(confidences)} confidences and {len(correct)} labels")
    confidence, accuracy = np.asarray(confidences, dtype=np.float64), np.asarray(correct, dtype=np.float64)
    bin_indices = np.minimum((confidence * bins).astype(int), bins - 1)
    counts = np.bincount(bin_indices, minlength=bins)
    sums, hits = (np.bincount(bin_indices, weights=values, minlength=bins) for values in (confidence, accuracy))
    filled = tuple(
        Bin(i / bins, (i + 1) / bins, int(n), float(sums[i] / n) if n else None, float(hits[i] / n) if n else None)
        for i, n in enumerate(counts)
    )
    error = float(np.abs(hits - sums).sum() / len(confidence))
    return Calibration(error, float(confidence.mean()), float(accuracy.mean()), len(confidence), filled)


def inference_calibration(
    outputs: Sequence[Sequence[int]],
    probabilities: Sequence[Sequence[float]],
    references: Sequence[Sequence[int]],
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
    return calibration(confidences, correct) if correct else None


# Tokens of an output are labelled by its TER alignment with the reference (Snover et al. 2006). sacrebleu searches for
# shifts. It has no public function for the final positions, so tokens carry their positions; and its table of edit
# distances is replaced by bit-parallel ones, which cost a few integer operations per token.


class _PositionedToken(int):
    """A token id with its position in the output; it is compared and hashed as the id."""

    position: int


class _Edits:
    """A pair of edit distance and trace. The search reads one trace in hundreds, so traces are computed lazily."""

    def __init__(self, distances: _Distances, tokens: list[_PositionedToken]) -> None:
        self._distances = distances
        self._tokens = tokens

    def __getitem__(self, index: int) -> int | str:
        if index > 1:
            raise IndexError(index)
        return self._distances.trace(self._tokens) if index else self._distances.distance(self._tokens)


class _Distances:
    """Edit distances from outputs to one reference."""

    def __init__(self, reference: list[int]) -> None:
        from sacrebleu.metrics import lib_ter

        self._reference = reference
        self._table = lib_ter.BeamEditDistance(reference)
        self._position_masks: dict[int, int] = {}
        for position, token in enumerate(reference):
            self._position_masks[token] = self._position_masks.get(token, 0) | 1 << position

    def __call__(self, tokens: list[_PositionedToken]) -> _Edits:
        return _Edits(self, tokens)

    def trace(self, tokens: list[_PositionedToken]) -> str:
        edits: str = self._table(tokens)[1]
        return edits

    def distance(self, tokens: Sequence[int]) -> int:
        """Levenshtein's distance, a column of the table at a time in two integers (Myers 1999; Hyyrö 2003)."""
        height = len(self._reference)
        mask, last = (1 << height) - 1, 1 << height >> 1
        rising, falling, distance = mask, 0, height
        for token in tokens:
            equal = self._position_masks.get(token, 0)
            vertical = equal | falling
            horizontal = (((equal & rising) + rising) ^ rising) | equal
            up, down = falling | ~(horizontal | rising), rising & horizontal
            distance += bool(up & last) - bool(down & last)
            up, down = up << 1 | 1, down << 1
            rising, falling = (down | ~(vertical | up)) & mask, up & vertical & mask
        return distance


def correct_tokens(output: Sequence[int], reference: Sequence[int]) -> list[bool]:
    """For each token of the output, whether it is aligned with an equal token of the reference, shifts undone."""
    from sacrebleu.metrics import lib_ter

    if not reference:
        return [False] * len(output)
    target, tokens = list(reference), [_PositionedToken(token) for token in output]
    for position, token in enumerate(tokens):
        token.position = position
    distances, tried = _Distances(target), 0
    while True:
        gain, shifted, tried = lib_ter._shift(tokens, target, distances, tried)
        if gain <= 0 or tried >= lib_ter._MAX_SHIFT_CANDIDATES:
            break
        tokens = shifted
    # The trace rewrites the output into the reference; an alignment is read from the other direction.
    _, _, wrong = lib_ter.trace_to_alignment(lib_ter._flip_trace(distances.trace(tokens)))
    labels = [False] * len(tokens)
    for token, error in zip(tokens, wrong, strict=True):
        labels[token.position] = not error
    return labels
