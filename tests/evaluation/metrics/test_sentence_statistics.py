"""Scores from summed sentence counts equal those of the corpus, degenerate corpora included."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from subgraft.evaluation.metrics.scores import FURTHER_METRICS, LOWER_IS_BETTER, METRICS, AnyMetricName, corpus_scores
from subgraft.evaluation.metrics.sentence_statistics import corpus_score, score_sums, sentence_statistics

WORDS = st.sampled_from(["a", "cat", "sat", "the", "mat", "on", "."])
SENTENCES = st.lists(WORDS, min_size=0, max_size=9).map(" ".join)


@pytest.mark.parametrize("metric", [*METRICS, *FURTHER_METRICS])
@settings(max_examples=150, deadline=None)
@given(pairs=st.lists(st.tuples(SENTENCES, SENTENCES), min_size=1, max_size=4))
def test_sums_score_as_the_corpus_does(metric: AnyMetricName, pairs: list[tuple[str, str]]) -> None:
    hypotheses, references = [list(side) for side in zip(*pairs, strict=True)]
    expected = corpus_scores(hypotheses, references, "en", [metric])[metric]
    score = corpus_score(metric, sentence_statistics(metric, hypotheses, references, "en"), "en")
    assert score.value == pytest.approx(expected.value, abs=1e-9)
    assert (score.name, score.signature) == (expected.name, expected.signature)


@pytest.mark.parametrize("metric", METRICS)
def test_many_corpora_are_scored_at_once(metric: AnyMetricName) -> None:
    references = ["the cat sat on the mat .", "a mat on the cat ."]
    systems = [references, ["the cat sat .", "a mat on a cat ."], ["", ""]]
    sums = np.stack([sentence_statistics(metric, system, references, "en").sum(axis=0) for system in systems])
    expected = [corpus_scores(system, references, "en")[metric].value for system in systems]
    assert score_sums(metric, sums) == pytest.approx(expected)
    # A perfect METEOR pays for its one chunk, 0.5 / 6³ and 0.5 / 7³ here.
    perfect = {"TER": 0, "METEOR": 100 - 25 / 6**3 - 25 / 7**3}.get(metric, 100)
    assert expected[0] == pytest.approx(perfect)
    assert expected[2] == (100 if metric in LOWER_IS_BETTER else 0)
