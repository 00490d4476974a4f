"""Is a difference more than luck? Paired bootstrap over seeds and sentences, and Holm's correction.

Sentences are resampled as in Koehn (EMNLP 2004). Training seeds are a second source of luck, crossed with the first:
every seed is scored on the same sentences, so one draw of sentences serves all seeds of a resample.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from subgraft.metrics.scores import MetricName
from subgraft.metrics.sentence_statistics import FloatArray, score_sums

CONFIDENCE = 0.95
_BLOCK = 100


@dataclass(frozen=True)
class Interval:
    """A 95 % percentile interval, in the metric's points."""

    low: float
    high: float


@dataclass(frozen=True)
class Estimate:
    """A score averaged over seeds, with its interval."""

    score: float
    interval: Interval


@dataclass(frozen=True)
class Comparison:
    """A system against a baseline: the difference of their seed averages, its interval, a two-sided p-value."""

    difference: float
    interval: Interval
    p_value: float
    seeds: int
    sentences: int


def estimate(metric: MetricName, statistics: FloatArray, *, samples: int = 1000, seed: int = 1) -> Estimate:
    """The score of statistics [seeds, sentences, counts] and its bootstrap interval."""
    score = score_sums(metric, statistics.sum(axis=1)).mean()
    return Estimate(float(score), _interval(bootstrap_scores(metric, statistics, samples=samples, seed=seed)))


def compare(
    metric: MetricName, system: FloatArray, baseline: FloatArray, *, samples: int = 1000, seed: int = 1
) -> Comparison:
    """Compare two systems whose statistics [seeds, sentences, counts] agree seed by seed and sentence by sentence.

    The p-value is the share of resampled differences, shifted to mean zero, at least as far from zero as the observed
    one (Riezler and Maxwell 2005), with one added to both counts so that it is never zero.

    Raises:
        ValueError: the statistics differ in shape.
    """
    if system.shape != baseline.shape:
        raise ValueError(f"statistics differ in shape: {system.shape} and {baseline.shape}")
    difference = float((_seed_scores(metric, system) - _seed_scores(metric, baseline)).mean())
    # The same seed makes the same draws for both: that is what pairs them.
    resampled = bootstrap_scores(metric, system, samples=samples, seed=seed) - bootstrap_scores(
        metric, baseline, samples=samples, seed=seed
    )
    as_far = np.abs(resampled - resampled.mean()) >= abs(difference) - 1e-12
    p_value = (int(as_far.sum()) + 1) / (samples + 1)
    return Comparison(difference, _interval(resampled), p_value, system.shape[0], system.shape[1])


def bootstrap_scores(metric: MetricName, statistics: FloatArray, *, samples: int = 1000, seed: int = 1) -> FloatArray:
    """Scores [samples] of resampled test sets, averaged over resampled seeds.

    Args:
        statistics: [seeds, sentences, counts], from `sentence_statistics`.
        samples: how many resamples.
        seed: of the resampling; equal seeds and shapes make equal draws.
    """
    seeds, sentences, _ = statistics.shape
    generator = np.random.default_rng(seed)
    blocks = []
    for weights in _sentence_weights(generator, samples, sentences):
        sums = np.einsum("bn,snk->bsk", weights, statistics, optimize=True)
        seed_weights = _seed_weights(generator, len(weights), seeds)
        blocks.append((score_sums(metric, sums) * seed_weights).sum(axis=1))
    return np.concatenate(blocks)


def holm(p_values: Sequence[float]) -> list[float]:
    """P-values adjusted for the number of comparisons (Holm 1979), in the order given."""
    adjusted = [0.0] * len(p_values)
    running = 0.0
    for rank, index in enumerate(sorted(range(len(p_values)), key=lambda i: p_values[i])):
        running = max(running, min(1.0, (len(p_values) - rank) * p_values[index]))
        adjusted[index] = running
    return adjusted


def _seed_scores(metric: MetricName, statistics: FloatArray) -> FloatArray:
    return score_sums(metric, statistics.sum(axis=1))


def _sentence_weights(generator: np.random.Generator, samples: int, sentences: int) -> Iterator[FloatArray]:
    """How often each sentence is drawn, in blocks [≤ 100, sentences] so that memory stays bounded."""
    for start in range(0, samples, _BLOCK):
        rows = min(_BLOCK, samples - start)
        drawn = generator.integers(sentences, size=(rows, sentences))
        flat = (drawn + sentences * np.arange(rows)[:, None]).ravel()
        yield np.bincount(flat, minlength=rows * sentences).reshape(rows, sentences).astype(np.float64)


def _seed_weights(generator: np.random.Generator, samples: int, seeds: int) -> FloatArray:
    """The weight of each seed [samples, seeds], every row summing to one.

    Of S seeds S - 1 are drawn, not S: a mean over S drawn ones varies by (S - 1) / S too little, and S is 2 or 3 here
    (McCarthy and Snowden 1985, the bootstrap with replacement for small samples).
    """
    if seeds == 1:
        return np.ones((samples, 1))
    return generator.multinomial(seeds - 1, np.full(seeds, 1 / seeds), size=samples) / (seeds - 1)


def _interval(resampled: NDArray[np.float64]) -> Interval:
    tail = 100 * (1 - CONFIDENCE) / 2
    low, high = np.percentile(resampled, [tail, 100 - tail])
    return Interval(float(low), float(high))
