"""Rankings of the candidates of a query: MRR, NDCG and ERR.

Candidates of equal score share their ranks: each measure is its expected value over all orders of them. So a model that
gives all candidates the same score is at chance level, in whichever order a file lists them.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from subgraft.base.errors import UserError
from subgraft.base.limits import MAX_RELEVANCE
from subgraft.evaluation.metrics.correlations import require_finite
from subgraft.evaluation.metrics.sentence_statistics import FloatArray

Scores = Sequence[Sequence[float]]
Relevances = Sequence[Sequence[int]]


def reciprocal_ranks(scores: Scores, relevances: Relevances, depth: int | None = None) -> FloatArray:
    """One over the rank of the first relevant candidate of each query, [queries] in 0 to 1.

    Args:
        scores: of the candidates of each query; more is better.
        relevances: of the same candidates; relevant are those above 0.
        depth: lower ranks count as 0; None counts all ranks.

    Raises:
        UserError: a score is NaN or infinite, or a query has more scores than candidates, or fewer.
    """
    queries = _sort_candidates(scores, relevances)
    return np.array(
        [_reciprocal_stop_rank(groups, (grades > 0).astype(np.float64), depth) for groups, grades in queries]
    )


def expected_reciprocal_ranks(scores: Scores, relevances: Relevances, depth: int = 20) -> FloatArray:
    """Expected reciprocal rank of each query, [queries] in 0 to 1 (Chapelle et al. 2009, equation 4); as above.

    A candidate of relevance g satisfies with a probability of (2^g - 1) / 2^h, and h is the highest relevance of all
    queries. Two rankings are comparable if they are of the same queries.
    """
    queries = _sort_candidates(scores, relevances)
    highest = max((max(grades, default=0) for grades in relevances), default=0)
    return np.array([_reciprocal_stop_rank(groups, _gains(grades) / 2.0**highest, depth) for groups, grades in queries])


def discounted_gains(scores: Scores, relevances: Relevances, depth: int = 10) -> FloatArray:
    """NDCG of each query, [queries] in 0 to 1, with gains of 2^relevance - 1 (Burges et al. 2005); as above.

    0 for a query without a relevant candidate.
    """
    rows = []
    for groups, grades in _sort_candidates(scores, relevances):
        gains, discounts = _gains(grades), 1 / np.log2(np.arange(2, len(grades) + 2))
        means = np.bincount(groups, weights=gains) / np.maximum(np.bincount(groups), 1)
        gain, ideal = ((side * discounts)[:depth].sum() for side in (means[groups], np.sort(gains)[::-1]))
        rows.append(gain / ideal if ideal > 0 else 0.0)
    return np.array(rows)


def _sort_candidates(scores: Scores, relevances: Relevances) -> list[tuple[NDArray[np.int64], NDArray[np.int64]]]:
    """Sort the candidates of each query by falling score: their groups of equal scores, and their relevances."""
    queries = []
    for number, (query_scores, query_relevances) in enumerate(zip(scores, relevances, strict=True), 1):
        if any(not 0 <= relevance <= MAX_RELEVANCE for relevance in query_relevances):
            raise UserError(f"query {number} has a relevance that is not from 0 to {MAX_RELEVANCE}")
        values, grades = require_finite(query_scores, "scores"), np.asarray(query_relevances, dtype=np.int64)
        if values.shape != grades.shape:
            raise UserError(f"query {number} has {grades.size} candidates, but {values.size} scores")
        order = np.argsort(-values, kind="stable")
        groups = np.cumsum(np.diff(values[order], prepend=values[order][:1]) < 0, dtype=np.int64)
        queries.append((groups, grades[order]))
    return queries


def _gains(grades: NDArray[np.int64]) -> FloatArray:
    return np.asarray(2.0**grades - 1)


def _reciprocal_stop_rank(groups: NDArray[np.int64], stop_probabilities: FloatArray, depth: int | None) -> float:
    """The expected reciprocal of the rank at which a reader stops, who stops at candidates with these probabilities."""
    depth = len(stop_probabilities) if depth is None else min(depth, len(stop_probabilities))
    continuing = _continuation_probabilities(groups, 1 - stop_probabilities, depth)
    return float(((continuing[:-1] - continuing[1:]) / np.arange(1, depth + 1)).sum())


def _continuation_probabilities(groups: NDArray[np.int64], continues: FloatArray, depth: int) -> FloatArray:
    """The probabilities [depth + 1] that a reader goes on after 0 to `depth` ranks, over all orders within groups."""
    if len(groups) == 0 or groups[-1] == len(groups) - 1:
        return np.concatenate([[1.0], np.cumprod(continues[:depth])])
    probabilities = [1.0]
    for start in np.flatnonzero(np.diff(groups, prepend=-1)):
        if len(probabilities) > depth:
            break
        group = continues[groups == groups[start]]
        probabilities += (probabilities[-1] * _subset_products(group, depth)[1:]).tolist()
    return np.array(probabilities[: depth + 1])


def _subset_products(factors: FloatArray, max_size: int) -> FloatArray:
    """The mean products of all subsets of 0 to `max_size` factors, [at most max_size + 1].

    They are the elementary symmetric polynomials, each divided by its number of terms. A further factor f joins a share
    j / n of the subsets of j of then n factors, which would overflow as sums, but not as means.
    """
    means = np.zeros(min(max_size, len(factors)) + 1)
    means[0] = 1.0
    sizes = np.arange(len(means))
    for n, factor in enumerate(factors, 1):
        shares = np.minimum(sizes / n, 1.0)
        means[1:] = (1 - shares[1:]) * means[1:] + shares[1:] * factor * means[:-1]
    return means
