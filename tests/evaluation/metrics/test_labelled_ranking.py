"""Measures of rankings against scikit-learn, their definitions, and the mean over all orders of tied candidates."""

from __future__ import annotations

import itertools
import random

import numpy as np
import pytest
from sklearn.metrics import ndcg_score

from label_metric_scores import label_scores
from subgraft.base.errors import UserError
from subgraft.evaluation.metrics.labelled import LABEL_METRICS, metrics_for
from subgraft.evaluation.metrics.ranking import discounted_gains, expected_reciprocal_ranks, reciprocal_ranks


def query(generator: random.Random, candidates: int, levels: int) -> tuple[list[float], list[int]]:
    """Scores, of which many are equal where levels are few, and relevances of 0 to 3."""
    scores = [generator.randrange(levels) / levels for _ in range(candidates)]
    return scores, [generator.choice([0, 0, 0, 1, 2, 3]) for _ in range(candidates)]


@pytest.mark.parametrize("levels", [4, 10**9], ids=["with ties", "without"])
def test_ndcg_is_that_of_scikit_learn_with_the_same_gains(levels: int) -> None:
    generator = random.Random(1)
    for _ in range(1000):
        scores, grades = query(generator, generator.randint(2, 30), levels)
        expected = ndcg_score([[2**grade - 1 for grade in grades]], [scores], k=10)
        assert discounted_gains([scores], [grades])[0] == pytest.approx(expected, abs=1e-9)


def reciprocal_rank(ranked: list[int], depth: int) -> float:
    return next((1 / rank for rank, grade in enumerate(ranked[:depth], 1) if grade > 0), 0.0)


def expected_reciprocal_rank(ranked: list[int], depth: int, highest: int) -> float:
    """Algorithm 1 of Chapelle et al. (2009)."""
    reading, total = 1.0, 0.0
    for rank, grade in enumerate(ranked[:depth], 1):
        satisfied = (2**grade - 1) / 2**highest
        total += reading * satisfied / rank
        reading *= 1 - satisfied
    return total


def test_reciprocal_ranks_follow_their_definitions() -> None:
    generator = random.Random(2)
    queries = [query(generator, generator.randint(1, 40), 10**9) for _ in range(1000)]
    scores, grades = [list(side) for side in zip(*queries, strict=True)]
    ranked = [
        [grade for _, grade in sorted(zip(one, other, strict=True), key=lambda pair: -pair[0])]
        for one, other in zip(scores, grades, strict=True)
    ]
    for depth in (10, 40):
        assert reciprocal_ranks(scores, grades, depth) == pytest.approx([reciprocal_rank(r, depth) for r in ranked])
    assert reciprocal_ranks(scores, grades) == pytest.approx([reciprocal_rank(r, 40) for r in ranked])
    expected = [expected_reciprocal_rank(r, 20, 3) for r in ranked]
    assert expected_reciprocal_ranks(scores, grades) == pytest.approx(expected, abs=1e-9)


def test_tied_candidates_score_as_the_mean_over_their_orders() -> None:
    generator = random.Random(3)
    for _ in range(200):
        scores, grades = query(generator, generator.randint(1, 6), 2)
        depth = generator.randint(1, 6)
        orders = [
            [grades[i] for i in order]
            for order in itertools.permutations(range(len(scores)))
            if all(scores[i] >= scores[j] for i, j in itertools.pairwise(order))
        ]
        mean = np.mean([reciprocal_rank(ranked, depth) for ranked in orders])
        assert reciprocal_ranks([scores], [grades], depth)[0] == pytest.approx(mean, abs=1e-9)
        mean = np.mean([expected_reciprocal_rank(ranked, depth, max(grades)) for ranked in orders])
        assert expected_reciprocal_ranks([scores], [grades], depth)[0] == pytest.approx(mean, abs=1e-9)


def test_a_model_that_scores_all_alike_is_at_chance_wherever_the_relevant_one_is_listed() -> None:
    first = [1] + [0] * 1999
    for grades in (first, first[::-1]):
        assert reciprocal_ranks([[0.5] * 2000], [grades])[0] == pytest.approx(np.mean(1 / np.arange(1, 2001)))


def test_queries_without_a_relevant_candidate_score_zero() -> None:
    names = metrics_for("ranking")
    assert set(names) == {"NDCG@10", "MRR", "MRR@10", "ERR@20"}
    scores = label_scores([LABEL_METRICS[name] for name in names], [[0.1, 0.2], [0.3]], [[0, 0], [0]])
    assert {score.value for score in scores.values()} == {0.0}


def test_all_right_is_a_hundred_points_but_for_err() -> None:
    scores = {
        name: score.value
        for name, score in label_scores(
            [LABEL_METRICS[name] for name in metrics_for("ranking")], [[3.0, 2.0, 1.0]], [[2, 1, 0]]
        ).items()
    }
    assert scores["NDCG@10"] == scores["MRR"] == scores["MRR@10"] == pytest.approx(100)
    assert scores["ERR@20"] == pytest.approx(100 * (3 / 4 + 1 / 4 * 1 / 4 / 2))


@pytest.mark.parametrize("name", metrics_for("ranking"))
def test_scores_that_are_not_finite_and_candidates_without_one_are_refused(name: str) -> None:
    with pytest.raises(UserError, match="NaN or infinity among the scores"):
        LABEL_METRICS[name].statistics([[float("nan"), 1.0]], [[1, 0]])
    with pytest.raises(UserError, match="query 2 has 2 candidates, but 1 scores"):
        LABEL_METRICS[name].statistics([[1.0], [1.0]], [[1], [1, 0]])
