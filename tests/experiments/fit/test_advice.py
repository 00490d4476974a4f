"""Which model is advised, and which claims its evidence allows."""

from __future__ import annotations

import pytest

from subgraft.evaluation.metrics.significance import Comparison, Interval
from subgraft.experiments.fit.outcome import Advice, Contender, advise

OLD, OWN = Contender("old", 50.0), Contender("own", 36.7)


def comparison(difference: float, p_value: float, seeds: int = 3) -> Comparison:
    return Comparison(difference, Interval(difference - 1, difference + 1), p_value, seeds, 200)


def advised(bleu: tuple[float, float], chrf: tuple[float, float], seeds: int = 3) -> Advice:
    return advise(OLD, OWN, {"BLEU": comparison(*bleu, seeds), "chrF": comparison(*chrf, seeds)})


@pytest.mark.parametrize(
    ("bleu", "chrf", "taken", "why"),
    [
        ((2.1, 0.01), (3.6, 0.01), "own", "Take the model with a vocabulary of its own"),
        ((0.3, 0.40), (3.6, 0.01), "own", "Take the model with a vocabulary of its own"),
        ((0.3, 0.40), (0.6, 0.30), "old", "does not differ significantly"),
        ((-2.0, 0.01), (0.6, 0.30), "old", "are lower"),
        ((2.0, 0.01), (-3.0, 0.01), "old", "contradict each other"),
    ],
)
def test_a_vocabulary_is_advised_where_one_score_is_higher_and_none_lower(
    bleu: tuple[float, float], chrf: tuple[float, float], taken: str, why: str
) -> None:
    result = advised(bleu, chrf)
    assert result.system == taken and why in result.sentence
    assert "36.7 tokens of the own vocabulary, 50.0 of the old one" in result.sentence


def test_only_what_is_significant_is_called_so() -> None:
    assert "BLEU +2.00 [1.00, 3.00], significant (p = 0.010)" in advised((2.0, 0.01), (0.1, 0.9)).sentence
    assert "chrF +0.10 [−0.90, 1.10], not significant (p = 0.900)" in advised((2.0, 0.01), (0.1, 0.9)).sentence


@pytest.mark.parametrize(("seeds", "said"), [(1, "for one seed only"), (2, "too few seeds to call it")])
def test_few_seeds_are_reported_and_nothing_is_called_significant(seeds: int, said: str) -> None:
    result = advised((2.0, 0.001), (3.0, 0.001), seeds)
    assert result.system == "own" and said in result.sentence
    assert "), significant" not in result.sentence and "Whether other seeds would agree is not known" in result.sentence
