"""Distinct-n by hand."""

from __future__ import annotations

import pytest

from subgraft.evaluation.metrics.conditional_generation import distinct


def test_distinct_is_the_share_of_different_n_grams_over_all_texts() -> None:
    texts = ["a b a b", "A b c"]
    assert distinct(texts, "en", 1) == pytest.approx(3 / 7)
    assert distinct(texts, "en", 2) == pytest.approx(3 / 5)  # ab, ba, bc of ab ba ab, ab bc
    assert distinct(["a"], "en", 2) == 0.0 and distinct([], "en", 1) == 0.0
