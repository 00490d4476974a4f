"""Answers score as SQuAD's official script scores them, whose figures on invented answers are recorded here."""

from __future__ import annotations

import random

import pytest

from label_metric_scores import label_scores
from subgraft.evaluation.metrics.labelled import LABEL_METRICS, exact_matches, metrics_for, token_f1s
from subgraft.evaluation.metrics.significance import bootstrap_scores

WORDS = ["the", "a", "an", "The", "cat's", "cat.", "cats", "theatre", "café", "naïve,"]
WORDS += ["1,000", "U.S.", "US", "—", "“quoted”", "(a)", "of", "猫", "an-other\tÅngström"]


def invented(cases: int, seed: int) -> tuple[list[str], list[list[str]]]:
    """Answers and their references: some empty, some without any reference, some of articles alone."""
    generator = random.Random(seed)

    def answer(most: int) -> str:
        return " ".join(generator.choice(WORDS) for _ in range(generator.randrange(most)))

    predictions, references = [], []
    for _ in range(cases):
        wanted = [answer(5) for _ in range(generator.randrange(4))]
        copied = wanted and generator.random() < 0.4
        predictions.append(generator.choice(wanted).upper() + " the" if copied else answer(6))
        references.append(wanted)
    return predictions, references


# Sums of exact matches and of F1, by evaluate-v2.0.py on a hundred answers for each seed from 0 on.
OFFICIAL = [
    (29, 36.86428571428571),
    (27, 34.612698412698414),
    (42, 46.19047619047619),
    (23, 26.64126984126984),
    (36, 41.07142857142857),
    (40, 46.02222222222221),
    (33, 39.39545454545454),
    (32, 36.85238095238095),
    (31, 38.888095238095225),
    (38, 40.285714285714285),
]


@pytest.mark.parametrize("seed", range(len(OFFICIAL)))
def test_answers_score_as_by_the_official_script(seed: int) -> None:
    predictions, references = invented(100, seed)
    matches, f1s = exact_matches(predictions, references), token_f1s(predictions, references)
    assert (matches.sum(), f1s.sum()) == pytest.approx(OFFICIAL[seed], abs=1e-9)


def test_scores_with_and_without_an_answer_are_those_of_the_official_script() -> None:
    """Its exact, f1, HasAns_exact, HasAns_f1, NoAns_exact and NoAns_f1 on a thousand answers."""
    official = {
        "exact match": 34.2,
        "token F1": 40.51619047619046,
        "exact match answerable": 37.369791666666664,
        "token F1 answerable": 45.59399801587299,
        "exact match unanswerable": 23.70689655172414,
        "token F1 unanswerable": 23.70689655172414,
    }
    assert set(metrics_for("answer")) == set(official)
    scores = label_scores([LABEL_METRICS[name] for name in official], *invented(1000, 99))
    assert {name: score.value for name, score in scores.items()} == pytest.approx(official, abs=1e-9)


@pytest.mark.parametrize(
    ("prediction", "references", "match", "f1"),
    [
        ("", [], 1, 1),  # rightly no answer
        ("cat", [], 0, 0),
        ("", ["cat"], 0, 0),
        ("The CAT!", ["dog", "cat"], 1, 1),  # the nearest of the references
        ("black cat", ["a cat", "dog"], 0, 2 / 3),
        ("cat cat", ["cat"], 0, 2 / 3),  # each token as often as both have it
        ("the", [], 1, 1),  # articles say nothing
    ],
)
def test_answers_by_hand(prediction: str, references: list[str], match: float, f1: float) -> None:
    assert exact_matches([prediction], [references]).tolist() == [match]
    assert token_f1s([prediction], [references]).tolist() == pytest.approx([f1])


def test_a_score_of_no_question_is_zero() -> None:
    metric = LABEL_METRICS["token F1 unanswerable"]
    statistics = metric.statistics(["cat", "dog", "a"], [["cat"], ["cat"], ["b"]])
    assert metric.score(statistics.sum(axis=0)) == 0
    # One question without an answer among three: some resamples miss it, and none is NaN.
    rare = metric.statistics(["", "dog", "a"], [[], ["cat"], ["b"]])
    assert set(bootstrap_scores(metric.score, rare[None], samples=200).ravel().tolist()) == {0.0, 100.0}
