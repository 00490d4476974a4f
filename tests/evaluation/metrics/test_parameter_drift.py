"""The root median squared drift, against numbers worked out by hand."""

from __future__ import annotations

import numpy as np
import pytest

from subgraft.evaluation.metrics.parameter_drift import root_median_squared


def test_it_is_of_the_numbers_of_all_tensors_together() -> None:
    before = [np.zeros((2, 2), dtype=np.float32), np.zeros(1, dtype=np.float32)]
    now = [np.array([[3, -1], [0, 2]], dtype=np.float32), np.array([100], dtype=np.float32)]
    assert root_median_squared(now, before) == 2  # of 0, 1, 4, 9, 10000 the one in the middle is 4


def test_of_two_in_the_middle_the_squares_are_averaged() -> None:
    assert root_median_squared([np.array([1.0, 2.0])], [np.zeros(2)]) == pytest.approx(np.sqrt((1 + 4) / 2))


def test_what_did_not_move_has_none_and_a_shift_is_found() -> None:
    drawn = np.random.default_rng(1).normal(size=999)
    assert root_median_squared([drawn], [drawn]) == 0
    assert root_median_squared([drawn - 0.25], [drawn]) == pytest.approx(0.25)
    with pytest.raises(ValueError, match="shorter"):
        root_median_squared([drawn, drawn], [drawn])
