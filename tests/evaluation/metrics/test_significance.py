"""The bootstrap against sacrebleu's own, against recomputation, and against what statistics promise."""

from __future__ import annotations

import gzip
import random
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray
from sacrebleu.metrics.bleu import BLEU
from sacrebleu.significance import PairedTest, Result

from subgraft.config.settings_base import MetricName
from subgraft.evaluation.metrics.scores import METRICS, corpus_scores
from subgraft.evaluation.metrics.sentence_statistics import FloatArray, sentence_statistics
from subgraft.evaluation.metrics.significance import (
    Claim,
    Comparison,
    Interval,
    bootstrap_scores,
    compare,
    estimate,
    holm,
)

VOCABULARY = [
    "the",
    "a",
    "court",
    "law",
    "appeal",
    "judge",
    "contract",
    "house",
    "dog",
    "sees",
    "reads",
    "ends",
    "of",
    "in",
    "and",
    "with",
]


def invented(sentences: int, seed: int) -> list[str]:
    generator = random.Random(seed)
    return [" ".join(generator.choices(VOCABULARY, k=generator.randint(6, 16))) for _ in range(sentences)]


def corrupted(sentences: list[str], rate: float, seed: int) -> list[str]:
    generator = random.Random(seed)
    return [
        " ".join(generator.choice(VOCABULARY) if generator.random() < rate else word for word in sentence.split())
        for sentence in sentences
    ]


def stacked(metric: MetricName, systems: list[list[str]], references: list[str]) -> FloatArray:
    return np.stack([sentence_statistics(metric, system, references, "en") for system in systems])


@pytest.mark.data
def test_agrees_with_sacrebleus_paired_bootstrap_on_real_text(mirror: Path) -> None:
    with gzip.open(mirror / "en-fr" / "itdocs" / "test.fr.gz", "rt", encoding="utf-8") as lines:
        references = [line.rstrip("\n") for _, line in zip(range(300), lines, strict=False)]
    baseline, system = _noisy(references, 0.30, 1), _noisy(references, 0.285, 2)
    named: list[tuple[str, Sequence[str]]] = [("baseline", baseline), ("system", system)]
    _, results = PairedTest(named, {"BLEU": BLEU(force=True)}, [references], "bs", n_samples=2000)()
    theirs = results["BLEU"][1]
    assert isinstance(theirs, Result)
    statistics = [stacked("BLEU", [side], references) for side in (system, baseline)]
    ours = estimate("BLEU", statistics[0], samples=2000)
    assert ours.score == pytest.approx(theirs.score)
    assert (ours.interval.high - ours.interval.low) / 2 == pytest.approx(theirs.ci, rel=0.1)
    # sacrebleu counts one tail of the distribution shifted to zero, `compare` both.
    comparison = compare("BLEU", *statistics, samples=2000)
    assert theirs.p_value is not None
    assert 0.005 < comparison.p_value < 0.9
    assert comparison.p_value == pytest.approx(2 * theirs.p_value, rel=0.25, abs=0.01)


def _noisy(sentences: list[str], rate: float, seed: int) -> list[str]:
    generator = random.Random(seed)
    return [" ".join(word for word in line.split() if generator.random() >= rate) for line in sentences]


@pytest.mark.parametrize("metric", METRICS)
def test_resamples_equal_direct_recomputation(metric: MetricName) -> None:
    references = invented(23, 1)
    hypotheses = corrupted(references, 0.3, 2)
    statistics = stacked(metric, [hypotheses], references)
    drawn = np.random.default_rng(7).integers(23, size=(5, 23))
    expected = [
        corpus_scores([hypotheses[i] for i in draw], [references[i] for i in draw], "en", [metric])[metric].value
        for draw in drawn
    ]
    assert bootstrap_scores(metric, statistics, samples=5, seed=7)[:, 0] == pytest.approx(expected)


def test_a_system_against_itself_is_not_significant() -> None:
    references = invented(50, 1)
    same = stacked("BLEU", [corrupted(references, 0.3, 2)], references)
    comparison = compare("BLEU", same, same)
    assert (comparison.difference, comparison.p_value) == (0.0, 1.0)
    assert comparison.interval.low == comparison.interval.high == 0.0


def test_a_clear_difference_is_significant_and_its_sign_is_right() -> None:
    references = invented(200, 1)
    good, bad = (stacked("chrF", [corrupted(references, rate, 3)], references) for rate in (0.1, 0.3))
    better, worse = compare("chrF", good, bad), compare("chrF", bad, good)
    assert better.interval.low > 0 > worse.interval.high
    assert better.difference == pytest.approx(-worse.difference)
    assert better.p_value < 0.01
    assert (better.seeds, better.sentences) == (1, 200)


def test_p_values_are_uniform_where_nothing_differs() -> None:
    p_values = []
    for trial in range(60):
        references = invented(60, trial)
        sides = [stacked("chrF", [corrupted(references, 0.3, 1000 * trial + k)], references) for k in (1, 2)]
        p_values.append(compare("chrF", *sides, samples=200).p_value)
    assert sum(p < 0.1 for p in p_values) <= 14
    assert 0.35 < np.mean(p_values) < 0.65


def scored(scores: NDArray[np.float64]) -> FloatArray:
    """Statistics of sentences with these scores [seeds, sentences], by a metric that is their mean."""
    return np.stack([scores, np.ones_like(scores)], axis=-1)


# The 97.5th percentiles of Student's t with 1, 2 and 4 degrees of freedom, as tables have them.
@pytest.mark.parametrize(("seeds", "quantile"), [(2, 12.706), (3, 4.303), (5, 2.776)])
def test_variance_between_seeds_alone_gives_students_interval(seeds: int, quantile: float) -> None:
    by_seed = np.random.default_rng(seeds).normal(0.3, 0.02, size=(seeds, 1))
    comparison = compare("ROUGE-L", scored(np.repeat(by_seed, 20, axis=1)), scored(np.zeros((seeds, 20))))
    half = quantile * 100 * by_seed.std(ddof=1) / np.sqrt(seeds)
    assert comparison.difference == pytest.approx(100 * by_seed.mean())
    assert [comparison.interval.low, comparison.interval.high] == pytest.approx(
        [comparison.difference - half, comparison.difference + half], abs=0.03 * half
    )


def test_without_variance_between_seeds_they_change_nothing() -> None:
    one = np.random.default_rng(1).normal(0.01, 0.05, size=(1, 300))
    single, several = (
        compare("ROUGE-L", scored(np.repeat(one, n, axis=0)), scored(np.zeros((n, 300)))) for n in (1, 4)
    )
    assert several.p_value == pytest.approx(single.p_value)
    assert several.interval.low == pytest.approx(single.interval.low)


def rejections(seeds: int, share: float, effect: float = 0.0, trials: int = 300) -> float:
    """How often two methods differ at 0.05 that are `effect` standard errors of the mean difference apart.

    share: of the mean's variance, that between seeds. Of the rest, half is of the sentences, whatever the
    seed, and half of sentence and seed together.
    """
    significant, sentences = 0, 60
    for trial in range(trials):
        draws = np.random.default_rng((trial, seeds)).normal
        of_seed = draws(size=(seeds, 1)) * np.sqrt(share * seeds)
        of_sentence = draws(size=(1, sentences)) * np.sqrt((1 - share) / 2 * sentences)
        of_both = draws(size=(seeds, sentences)) * np.sqrt((1 - share) / 2 * sentences * seeds)
        system = scored(effect + of_seed + of_sentence + of_both)
        baseline = scored(np.zeros((seeds, sentences)))
        significant += compare("ROUGE-L", system, baseline, samples=100, seed=trial).p_value < 0.05
    return significant / trials


@pytest.mark.parametrize("seeds", [2, 3, 5])
@pytest.mark.parametrize("share", [0.5, 1.0])
def test_equal_methods_seldom_differ_over_several_seeds(seeds: int, share: float) -> None:
    # 0.05, and three standard errors of 300 trials.
    assert rejections(seeds, share) <= 0.05 + 3 * np.sqrt(0.05 * 0.95 / 300)


def test_one_seed_says_nothing_of_others_and_nothing_is_claimed_of_it() -> None:
    assert rejections(1, 0.9) > 0.3, "this is why there is a rule"
    comparison = compare("ROUGE-L", scored(np.full((1, 20), 0.5)), scored(np.zeros((1, 20))))
    assert comparison.p_value < 0.01
    assert comparison.claim() is Claim.OUTPUTS_DIFFER


def test_a_true_difference_is_found_with_five_seeds() -> None:
    assert rejections(5, 0.5, effect=5.0, trials=100) > 0.85


@pytest.mark.parametrize(
    ("seeds", "p_value", "claim"),
    [
        (1, 0.04, Claim.OUTPUTS_DIFFER),
        (1, 0.05, Claim.OUTPUTS_ALIKE),
        (2, 0.001, Claim.TOO_FEW_SEEDS),
        (2, 0.05, Claim.NOT_SIGNIFICANT),
        (3, 0.04, Claim.SIGNIFICANT),
        (3, 0.05, Claim.NOT_SIGNIFICANT),
    ],
)
def test_only_three_seeds_make_a_difference_significant(seeds: int, p_value: float, claim: Claim) -> None:
    comparison = Comparison(1.0, Interval(0.5, 1.5), p_value, seeds, 100)
    assert comparison.claim() is claim
    assert comparison.claim(level=0.0001) not in (Claim.SIGNIFICANT, Claim.OUTPUTS_DIFFER)


def test_no_score_is_thought_to_be_below_zero() -> None:
    estimated = estimate("ROUGE-L", scored(np.repeat([[0.01], [0.05]], 20, axis=1)))
    assert estimated.score == pytest.approx(3.0)
    assert estimated.interval.low == 0.0


def test_equal_seeds_make_equal_results_and_sample_counts_need_not_divide() -> None:
    references = invented(30, 1)
    statistics = stacked("BLEU", [corrupted(references, 0.3, 2), corrupted(references, 0.3, 3)], references)
    first, second, other = (bootstrap_scores("BLEU", statistics, samples=250, seed=s) for s in (1, 1, 2))
    assert len(first) == 250
    assert np.array_equal(first, second)
    assert not np.array_equal(first, other)


def test_unpaired_systems_are_refused() -> None:
    with pytest.raises(ValueError, match="differ in shape"):
        compare("BLEU", np.ones((2, 5, 10)), np.ones((1, 5, 10)))


def test_holm_on_a_worked_example() -> None:
    # Holm (1979): 0.005 x 4, 0.01 x 3, then 0.03 x 2 = 0.06 holds 0.04 x 1 up.
    assert holm([0.01, 0.04, 0.03, 0.005]) == pytest.approx([0.03, 0.06, 0.06, 0.02])
    assert holm([0.6, 0.7]) == [1.0, 1.0]
    assert holm([]) == []
