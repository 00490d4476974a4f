"""ROUGE on the example of its paper, compared with rouge-score, and its tokens."""

from __future__ import annotations

import pytest
from rouge_score.rouge_scorer import RougeScorer

from subgraft.evaluation.metrics.overlap import (
    longest_common_subsequence,
    rouge_ngram_signature,
    rouge_signature,
    sentence_rouge,
    sentence_rouge_ngrams,
)
from toys import english


@pytest.mark.parametrize(
    ("hypothesis", "expected"),
    [("police kill the gunman", 3 / 4), ("the gunman kill police", 2 / 4), ("the gunman police killed", 2 / 4)],
)
def test_the_example_of_lin_2004(hypothesis: str, expected: float) -> None:
    assert sentence_rouge(hypothesis, "police killed the gunman", "en") == pytest.approx(expected)


def test_precision_and_recall_weigh_the_same() -> None:
    # Three of four and three of six: 2 · 0.75 · 0.5 / 1.25.
    assert sentence_rouge("a b x c", "a q b r s c", "en") == pytest.approx(0.6)


def test_a_subsequence_keeps_the_order() -> None:
    assert longest_common_subsequence(list("abcbdab"), list("bdcaba")) == 4
    assert longest_common_subsequence([], list("ab")) == 0


def test_case_and_punctuation_do_not_count_and_accents_do() -> None:
    assert sentence_rouge("L'été, déjà !", "l'Été déjà.", "fr") == 1
    assert sentence_rouge("ete", "été", "fr") == 0


def test_chinese_is_compared_by_characters() -> None:
    assert sentence_rouge("我们今天看书。", "我们明天看书", "zh_CN") == pytest.approx(5 / 6)
    assert "tok:zh" in rouge_signature("zh_CN")


def test_nothing_in_common_and_nothing_at_all_score_zero() -> None:
    assert [sentence_rouge(a, b, "en") for a, b in [("a", "b"), ("", "b"), ("a", ""), ("", "")]] == [0, 0, 0, 0]


@pytest.mark.parametrize(
    ("hypothesis", "n", "expected"),
    [
        ("police kill the gunman", 1, 3 / 4),
        ("police kill the gunman", 2, 1 / 3),  # "the gunman" of three pairs each
        ("the gunman kill police", 2, 1 / 3),
        (
            "police police police",
            1,
            2 * (1 / 3) * (1 / 4) / (1 / 3 + 1 / 4),
        ),  # no word counts more often than it is there
        ("gunman", 2, 0),
        ("", 1, 0),
    ],
)
def test_ngrams_of_the_example_of_lin_2004(hypothesis: str, n: int, expected: float) -> None:
    assert sentence_rouge_ngrams(hypothesis, "police killed the gunman", "en", n) == pytest.approx(expected)


def test_plain_english_scores_as_by_rouge_score_itself() -> None:
    scorer = RougeScorer(["rouge1", "rouge2", "rougeL"])
    for output, reference in zip(english(40, 1), english(40, 2), strict=True):
        score = scorer.score(reference, output)
        assert sentence_rouge_ngrams(output, reference, "en", 1) == pytest.approx(score["rouge1"].fmeasure)
        assert sentence_rouge_ngrams(output, reference, "en", 2) == pytest.approx(score["rouge2"].fmeasure)
        assert sentence_rouge(output, reference, "en") == pytest.approx(score["rougeL"].fmeasure)


def test_ngrams_are_of_words_in_any_script() -> None:
    assert sentence_rouge_ngrams("L'été, déjà !", "l'Été déjà.", "fr", 2) == 1
    assert sentence_rouge_ngrams("我们今天看书。", "我们明天看书", "zh_CN", 1) == pytest.approx(5 / 6)
    assert rouge_ngram_signature("zh").startswith(rouge_signature("zh"))
    assert "|rouge-score:" in rouge_ngram_signature("zh")
