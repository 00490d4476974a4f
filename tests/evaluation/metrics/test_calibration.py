"""Calibration error on cases worked by hand."""

from __future__ import annotations

import random

import pytest

from subgraft.evaluation.metrics.calibration import calibration, inference_calibration


def test_two_bins_by_hand() -> None:
    # Below a half: confidence 0.3, one of two right. Above: confidence 0.8, two of three right.
    result = calibration([0.2, 0.4, 0.7, 0.8, 0.9], [True, False, True, False, True], bins=2)
    assert result.error == pytest.approx((2 * abs(0.5 - 0.3) + 3 * abs(2 / 3 - 0.8)) / 5)
    assert (result.confidence, result.accuracy, result.tokens) == pytest.approx((0.6, 0.6, 5))
    low, high = result.bins
    assert (low.low, low.high, low.count, low.confidence, low.accuracy) == pytest.approx((0, 0.5, 2, 0.3, 0.5))
    assert (high.count, high.accuracy) == pytest.approx((3, 2 / 3))


def test_there_are_twenty_bins_and_the_last_is_closed() -> None:
    result = calibration([0.0, 0.05, 1.0], [True, True, True])
    assert len(result.bins) == 20
    assert [i for i, b in enumerate(result.bins) if b.count] == [0, 1, 19]
    assert result.bins[2].confidence is None
    assert result.error == pytest.approx((1 + 0.95 + 0) / 3)


def test_tokens_that_are_right_as_often_as_said_are_calibrated() -> None:
    generator = random.Random(1)
    confidences = [generator.random() for _ in range(20000)]
    fair = calibration(confidences, [generator.random() < c for c in confidences])
    boastful = calibration(confidences, [generator.random() < c / 2 for c in confidences])
    assert fair.error < 0.02
    assert boastful.error == pytest.approx(0.25, abs=0.02)


def test_outputs_are_labelled_by_their_alignment() -> None:
    # The second token of the first output and all of the second are wrong.
    result = inference_calibration([[1, 9], [7]], [[0.9, 0.6], [0.3]], [[1, 2], [8]])
    assert result is not None
    assert result.error == pytest.approx((0.1 + 0.6 + 0.3) / 3)
    assert result.accuracy == pytest.approx(1 / 3)


def test_nothing_generated_has_no_calibration() -> None:
    assert inference_calibration([[], []], [[], []], [[1], [2]]) is None
    with pytest.raises(ValueError, match="0 confidences"):
        calibration([], [])
