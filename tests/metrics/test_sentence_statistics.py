"""Scores from summed sentence counts equal sacrebleu's, degenerate corpora included."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from subgraft.metrics.scores import METRICS, MetricName, corpus_scores, sacrebleu_metric
from subgraft.metrics.sentence_statistics import score_sums, sentence_statistics

WORDS = st.sampled_from(["a", "cat", "sat", "the", "mat", "on", "."])
SENTENCES = st.lists(WORDS, min_size=0, max_size=9).map(" ".join)


@pytest.mark.parametrize("metric", METRICS)
@settings(max_examples=150, deadline=None)
@given(pairs=st.lists(st.tuples(SENTENCES, SENTENCES), min_size=1, max_size=4))
def test_sums_score_as_sacrebleu_does(metric: MetricName, pairs: list[tuple[str, str]]) -> None:
    hypotheses, references = [list(side) for side in zip(*pairs, strict=True)]
    expected = sacrebleu_metric(metric, "en").corpus_score(hypotheses, [references]).score
    sums = sentence_statistics(metric, hypotheses, references, "en").sum(axis=0)
    assert float(score_sums(metric, sums)) == pytest.approx(expected, abs=1e-9)


@pytest.mark.parametrize("metric", METRICS)
def test_many_corpora_are_scored_at_once(metric: MetricName) -> None:
    references = ["the cat sat on the mat .", "a mat on the cat ."]
    systems = [references, ["the cat sat .", "a mat on a cat ."], ["", ""]]
    sums = np.stack([sentence_statistics(metric, system, references, "en").sum(axis=0) for system in systems])
    expected = [corpus_scores(system, references, "en")[metric].value for system in systems]
    assert score_sums(metric, sums) == pytest.approx(expected)
    assert expected[0] == pytest.approx(100)
    assert expected[2] == 0
