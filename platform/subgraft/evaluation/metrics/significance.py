"""Significance of differences, and the claims they support: a paired bootstrap, Student's t, and Holm's correction.

Sentences are resampled as in Koehn (EMNLP 2004). Training seeds are a second source of variance, crossed with the
first: every seed is scored on the same sentences. Two to five seeds are too few to resample, because a resample never
lies outside the range of the seeds. So the error of a mean over S seeds is drawn as its standard error times Student's
t with S - 1 degrees of freedom, and added to the resampled score. With one seed, this is the bootstrap; if seeds are
the only source of variance, the t test; in between, the sum of two errors as in Behrens (1929) and Fisher (1935), which
is conservative (Robinson, Annals of Statistics 1976).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from subgraft.evaluation.metrics.scores import FURTHER_METRICS, METRICS
from subgraft.evaluation.metrics.sentence_statistics import FloatArray, score_sums

CONFIDENCE = 0.95
LEVEL = 0.05
# A method is called better only if it was measured on at least this many seeds.
FEWEST_SEEDS = 3
# Draws of the variation between seeds for each resample of the sentences; they cost little next to the resample.
SEED_DRAWS = 100
_BLOCK = 100

# A metric by its name, or a function from summed statistics [..., k] to scores [...].
Scored: TypeAlias = str | Callable[[FloatArray], FloatArray]


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


class Claim(Enum):
    """The claim a comparison supports: about methods from three seeds on, with one seed only about its outputs."""

    SIGNIFICANT = "significant"
    NOT_SIGNIFICANT = "not significant"
    TOO_FEW_SEEDS = "too few seeds"
    OUTPUTS_DIFFER = "of these outputs, this seed"
    OUTPUTS_ALIKE = "not even of these outputs"


@dataclass(frozen=True)
class Comparison:
    """A system against a baseline: the difference of their seed averages, its interval, a two-sided p-value.

    Interval and p-value are over sentences and seeds; of one seed they are over sentences alone.

    Attributes:
        p_value: with a correction where several systems are compared.
        p_alone: without it, which agrees with the interval; None if there is no correction.
    """

    difference: float
    interval: Interval
    p_value: float
    seeds: int
    sentences: int
    p_alone: float | None = None

    def claim(self, level: float = LEVEL) -> Claim:
        """The claim made in reports, terminal and registry: the only rule for it."""
        differs = self.p_value < level
        if self.seeds == 1:
            return Claim.OUTPUTS_DIFFER if differs else Claim.OUTPUTS_ALIKE
        if not differs:
            return Claim.NOT_SIGNIFICANT
        return Claim.SIGNIFICANT if self.seeds >= FEWEST_SEEDS else Claim.TOO_FEW_SEEDS


def estimate(
    metric: Scored,
    statistics: FloatArray,
    *,
    samples: int = 1000,
    seed: int = 1,
    bounds: tuple[float, float] | None = None,
) -> Estimate:
    """The score of statistics [seeds, sentences, counts] and its interval.

    Args:
        metric: a name, or a function of sums.
        statistics: from `sentence_statistics` or a metric of labels.
        samples: how many resamples.
        seed: of the resampling.
        bounds: the metric's lowest and highest value, which the interval does not leave; None for 0 and infinity, or
            no bound if it is a metric of a user.
    """
    by_seed = _seed_scores(metric, statistics)
    resampled = bootstrap_scores(metric, statistics, samples=samples, seed=seed)
    interval = _interval(by_seed.mean() + _deviations(resampled, by_seed, seed))
    if bounds is None:
        is_plugin = isinstance(metric, str) and metric not in (*METRICS, *FURTHER_METRICS)
        bounds = (-np.inf if is_plugin else 0.0, np.inf)
    return Estimate(float(by_seed.mean()), Interval(max(bounds[0], interval.low), min(bounds[1], interval.high)))


def compare(
    metric: Scored, system: FloatArray, baseline: FloatArray, *, samples: int = 1000, seed: int = 1
) -> Comparison:
    """Compare two systems whose statistics [seeds, sentences, counts] agree seed by seed and sentence by sentence.

    The p-value is the share of draws under the null hypothesis at least as far from zero as the observed difference
    (Riezler and Maxwell 2005), with one added to both counts so that it is never zero.

    Raises:
        ValueError: the statistics differ in shape.
    """
    if system.shape != baseline.shape:
        raise ValueError(f"statistics differ in shape: {system.shape} and {baseline.shape}")
    by_seed = _seed_scores(metric, system) - _seed_scores(metric, baseline)
    difference = float(by_seed.mean())
    # The same seed makes the same draws for both, which pairs them.
    ours, theirs = (bootstrap_scores(metric, side, samples=samples, seed=seed) for side in (system, baseline))
    deviations = _deviations(ours - theirs, by_seed, seed)
    at_least_as_far = np.abs(deviations) >= abs(difference) - 1e-12
    p_value = (float(at_least_as_far.mean()) * samples + 1) / (samples + 1)
    return Comparison(difference, _interval(difference + deviations), p_value, system.shape[0], system.shape[1])


def bootstrap_scores(metric: Scored, statistics: FloatArray, *, samples: int = 1000, seed: int = 1) -> FloatArray:
    """Scores [samples, seeds] on resampled test sets; one draw of sentences serves all seeds of a resample.

    Args:
        statistics: [seeds, sentences, counts], from `sentence_statistics`.
        samples: how many resamples.
        seed: of the resampling; equal seeds and numbers of sentences make equal draws.
    """
    generator = np.random.default_rng(seed)
    blocks = [
        _scores(metric, np.einsum("bn,snk->bsk", weights, statistics, optimize=True))
        for weights in _sentence_weights(generator, samples, statistics.shape[1])
    ]
    return np.concatenate(blocks)


def holm(p_values: Sequence[float]) -> list[float]:
    """P-values adjusted for the number of comparisons (Holm 1979), in input order."""
    adjusted = [0.0] * len(p_values)
    running = 0.0
    for rank, index in enumerate(sorted(range(len(p_values)), key=lambda i: p_values[i])):
        running = max(running, min(1.0, (len(p_values) - rank) * p_values[index]))
        adjusted[index] = running
    return adjusted


def _seed_scores(metric: Scored, statistics: FloatArray) -> FloatArray:
    return _scores(metric, statistics.sum(axis=1))


def _scores(metric: Scored, sums: FloatArray) -> FloatArray:
    return metric(sums) if callable(metric) else score_sums(metric, sums)


def _sentence_weights(generator: np.random.Generator, samples: int, sentences: int) -> Iterator[FloatArray]:
    """How often each sentence is drawn, in blocks [≤ 100, sentences] so that memory stays bounded."""
    for start in range(0, samples, _BLOCK):
        rows = min(_BLOCK, samples - start)
        sampled = generator.integers(sentences, size=(rows, sentences))
        flat = (sampled + sentences * np.arange(rows)[:, None]).ravel()
        yield np.bincount(flat, minlength=rows * sentences).reshape(rows, sentences).astype(np.float64)


def _deviations(resampled: FloatArray, by_seed: FloatArray, seed: int) -> FloatArray:
    """Samples of the error of a mean over seeds: [samples, draws], or [samples, 1] for one seed.

    Args:
        resampled: [samples, seeds], on resampled sentences.
        by_seed: [seeds], on all sentences.
    """
    seeds = len(by_seed)
    sentence_deviations = resampled.mean(axis=1, keepdims=True)
    sentence_deviations = sentence_deviations - sentence_deviations.mean()
    if seeds == 1:
        return np.asarray(sentence_deviations)
    # Effects of sentences that differ between seeds are part of the variance between seeds, which is drawn below.
    covariance = np.cov(resampled, rowvar=False)
    common = (covariance.sum() - covariance.trace()) / (seeds * (seeds - 1))
    sentence_deviations *= np.sqrt(max(0.0, common) / max(covariance.mean(), 1e-12))
    standard_error = by_seed.std(ddof=1) / np.sqrt(seeds)
    seed_deviations = np.random.default_rng((seed, seeds)).standard_t(seeds - 1, size=(len(resampled), SEED_DRAWS))
    return np.asarray(sentence_deviations + standard_error * seed_deviations)


def _interval(resampled: NDArray[np.float64]) -> Interval:
    tail = 100 * (1 - CONFIDENCE) / 2
    low, high = np.percentile(resampled, [tail, 100 - tail])
    return Interval(float(low), float(high))
