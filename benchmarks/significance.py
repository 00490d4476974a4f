"""How often a comparison of two equal methods is taken for a difference, and how often a true one is found.

    python benchmarks/significance.py [--trials 400] [--sentences 100]

Scores of sentences vary in three ways: by sentence, by training seed, and by both together.
`variance of seeds` is the seeds' share of the mean's variance. The true difference is 3.5 standard errors of
the mean over all seeds, which a test that knew these would find in 94 % of cases. Next to the test of
`evaluation.metrics.significance` stands the bootstrap over sentences and, of S seeds, S - 1.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable

import numpy as np

from subgraft.evaluation.metrics.sentence_statistics import FloatArray
from subgraft.evaluation.metrics.significance import LEVEL, bootstrap_scores, compare

SHARES = (0.0, 0.25, 0.5, 0.75, 0.9, 1.0)
SEEDS = (1, 2, 3, 4, 5, 10)
SAMPLES = 300
EFFECT = 3.5
Test = Callable[[FloatArray, FloatArray, int], float]


def drawn(generator: np.random.Generator, seeds: int, sentences: int, share: float, effect: float) -> FloatArray:
    """Statistics [seeds, sentences, 2] of a mean of sentence scores, as ROUGE-L has them: the scores, and ones.

    The mean over seeds and sentences has a standard error of one and lies `effect` of them above zero. The seeds have
    `share` of its variance; half of the rest is the sentences' and half is of sentence and seed together.
    """
    of_seeds = generator.normal(size=(seeds, 1)) * np.sqrt(share * seeds)
    of_sentence = generator.normal(size=(1, sentences)) * np.sqrt((1 - share) / 2 * sentences)
    of_both = generator.normal(size=(seeds, sentences)) * np.sqrt((1 - share) / 2 * sentences * seeds)
    scores = effect + of_seeds + of_sentence + of_both
    return np.stack([scores, np.ones_like(scores)], axis=-1)


def ours(system: FloatArray, baseline: FloatArray, trial: int) -> float:
    return compare("ROUGE-L", system, baseline, samples=SAMPLES, seed=trial).p_value


def resampled_seeds(system: FloatArray, baseline: FloatArray, trial: int) -> float:
    """Seeds are resampled like sentences: S - 1 of S, so that their mean has the right variance."""
    seeds = len(system)
    sides = [bootstrap_scores("ROUGE-L", side, samples=SAMPLES, seed=trial) for side in (system, baseline)]
    uniform = np.full(seeds, 1 / seeds)
    counts = np.random.default_rng((trial, 1)).multinomial(max(1, seeds - 1), uniform, size=SAMPLES)
    resampled = ((sides[0] - sides[1]) * counts / max(1, seeds - 1)).sum(axis=1)
    difference = 100 * float((system - baseline)[..., 0].mean())
    return (int((np.abs(resampled - resampled.mean()) >= abs(difference)).sum()) + 1) / (SAMPLES + 1)


def rate(test: Test, seeds: int, sentences: int, share: float, effect: float, trials: int) -> float:
    """The share of trials in which a test rejects at 0.05."""
    rejected = 0
    for trial in range(trials):
        generator = np.random.default_rng((trial, seeds))
        system = drawn(generator, seeds, sentences, share, effect)
        baseline = np.zeros_like(system)
        baseline[..., 1] = 1
        rejected += test(system, baseline, trial) < LEVEL
    return rejected / trials


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--trials", type=int, default=400)
    options.add_argument("--sentences", type=int, default=100)
    args = options.parse_args()
    tests: dict[str, Test] = {"ours": ours, "resampled seeds": resampled_seeds}
    for what, effect in (("rejected where nothing differs", 0.0), ("true difference found", EFFECT)):
        for name, test in tests.items():
            print(f"\n{what}, {name}, % at {LEVEL}\nvariance of seeds" + "".join(f"{share:8.2f}" for share in SHARES))
            for seeds in SEEDS:
                rates = (rate(test, seeds, args.sentences, share, effect, args.trials) for share in SHARES)
                print(f"{seeds:6d} seeds " + "".join(f"{100 * share:8.1f}" for share in rates), flush=True)


if __name__ == "__main__":
    main()
