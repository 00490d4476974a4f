"""ROUGE: the words, pairs of words and longest subsequence that two sentences share (Lin 2004, sections 2 and 3.1).

ROUGE-1 and ROUGE-2 come from the package rouge-score, with our words: its own tokenizer drops every letter outside a to
z, and with them all of a Chinese text.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any

from subgraft.evaluation.metrics.metric_words import alphanumeric, is_chinese


def signature(language: str) -> str:
    """The settings under which `sentence_rouge` scores."""
    tokenizer = "zh-alphanumeric" if is_chinese(language) else "alphanumeric"
    return f"nrefs:1|case:lc|tok:{tokenizer}|stem:no|beta:1|corpus:mean-of-sentences"


def ngram_signature(language: str) -> str:
    """The settings under which `sentence_rouge_ngrams` scores, with the version of rouge-score."""
    from importlib.metadata import version

    return f"{signature(language)}|rouge-score:{version('rouge-score')}"


def sentence_rouge(hypothesis: str, reference: str, language: str) -> float:
    """ROUGE-L, the F-score of equation 4 with β = 1, in 0 to 1; 0 where either side has no word."""
    output, target = alphanumeric(hypothesis, language), alphanumeric(reference, language)
    common = longest_common_subsequence(output, target)
    # With β = 1 the harmonic mean of precision and recall is twice the match over both lengths.
    return 2 * common / (len(output) + len(target)) if common else 0.0


def sentence_rouge_ngrams(hypothesis: str, reference: str, language: str, n: int) -> float:
    """ROUGE-N, the F-score of shared n-grams of words, each as often as both have it; 0 where either side has none."""
    score = _scorer(n, is_chinese(language)).score(reference, hypothesis)
    return float(score[f"rouge{n}"].fmeasure)


def longest_common_subsequence(first: Sequence[str], second: Sequence[str]) -> int:
    """The length of the longest sequence of words found in both in this order, gaps allowed."""
    row = [0] * (len(second) + 1)
    for word in first:
        diagonal = 0
        for column, other in enumerate(second, 1):
            above = row[column]
            row[column] = diagonal + 1 if word == other else max(above, row[column - 1])
            diagonal = above
    return row[-1]


class _WordTokenizer:
    """Splits text into our words, with the interface of rouge-score's tokenizers."""

    def __init__(self, language: str) -> None:
        self._language = language

    def tokenize(self, text: str) -> list[str]:
        return alphanumeric(text, self._language)


@cache
def _scorer(n: int, chinese: bool) -> Any:
    from rouge_score.rouge_scorer import RougeScorer

    return RougeScorer([f"rouge{n}"], tokenizer=_WordTokenizer("zh" if chinese else ""))
