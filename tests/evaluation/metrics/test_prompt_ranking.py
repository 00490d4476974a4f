"""The true source among others: how they are drawn, and what counts as found."""

from __future__ import annotations

import numpy as np
import pytest

from subgraft.base.errors import UserError
from subgraft.evaluation.metrics.conditional_generation import candidates, ranked_first

SOURCES = [f"source {number % 40}" for number in range(100)]  # each more than once


def test_each_text_has_its_own_source_and_nine_others_that_differ() -> None:
    chosen = candidates(SOURCES, 10, seed=1)
    assert chosen.shape == (100, 10)
    assert chosen[:, 0].tolist() == list(range(100))
    assert all(len({SOURCES[place] for place in row}) == 10 for row in chosen)
    drawn = {SOURCES[place] for row in chosen for place in row[1:]}
    assert drawn == set(SOURCES), "every source comes up as another one"


def test_a_seed_draws_the_same_and_another_one_does_not() -> None:
    first, again, other = (candidates(SOURCES, 10, seed=seed) for seed in (1, 1, 2))
    assert (first == again).all() and (first != other).any()
    assert (candidates(SOURCES, 10, seed=1, texts=7) == first[:7]).all()


def test_of_few_sources_all_are_candidates() -> None:
    assert candidates(["bad", "good", "good"], 10, seed=1).tolist() == [[0, 1], [1, 0], [2, 0]]
    with pytest.raises(UserError, match="but one"):
        candidates(["good", "good"], 10, seed=1)


def test_the_least_nats_are_found_and_a_tie_is_shared() -> None:
    nats = np.array([[1.0, 2.0, 3.0], [2.0, 1.0, 3.0], [5.0, 5.0, 5.0], [1.0, 1.0 + 1e-5, 2.0]])
    assert ranked_first(nats).tolist() == pytest.approx([1, 0, 1 / 3, 0.5])


def test_random_likelihoods_find_a_tenth() -> None:
    nats = np.random.default_rng(1).normal(40, 5, size=(20_000, 10))
    assert ranked_first(nats).mean() == pytest.approx(0.1, abs=0.01)
