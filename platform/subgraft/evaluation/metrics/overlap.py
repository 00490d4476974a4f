"""Words in common: ROUGE and CIDEr-D.

ROUGE (Lin 2004, sections 2 and 3.1) counts the words, pairs of words and longest subsequence that two sentences share.
ROUGE-1 and ROUGE-2 come from the package rouge-score, with our words: its own tokenizer drops every letter outside a to
z, and with them all of a Chinese text.

CIDEr-D (Vedantam et al., CVPR 2015, sections 4 and 5) weights n-grams of words, n from 1 to 4, by how rare they are
among the references. An output's vector is compared with its reference's; weights are clipped at the reference's, and
a difference in length is penalised. It equals pycocoevalcap, which the field reports, except for the words: its
tokenizer needs Java, so words are those of ROUGE.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from functools import cache
from math import exp, log, sqrt
from typing import Any, TypeAlias

from subgraft.evaluation.metrics.metric_words import alphanumeric, is_chinese


def rouge_signature(language: str) -> str:
    """The settings under which `sentence_rouge` scores."""
    tokenizer = "zh-alphanumeric" if is_chinese(language) else "alphanumeric"
    return f"nrefs:1|case:lc|tok:{tokenizer}|stem:no|beta:1|corpus:mean-of-sentences"


def rouge_ngram_signature(language: str) -> str:
    """The settings under which `sentence_rouge_ngrams` scores, with the version of rouge-score."""
    from importlib.metadata import version

    return f"{rouge_signature(language)}|rouge-score:{version('rouge-score')}"


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


ORDER = 4
SIGMA = 6.0
Gram: TypeAlias = tuple[str, ...]
Grams: TypeAlias = Counter[Gram]


def cider_signature(language: str) -> str:
    """The settings under which `sentence_ciders` scores."""
    tokenizer = "zh-alphanumeric" if is_chinese(language) else "alphanumeric"
    return f"nrefs:1|case:lc|tok:{tokenizer}|variant:D|n:{ORDER}|sigma:{SIGMA:g}|df:references|corpus:mean-of-sentences"


def sentence_ciders(hypotheses: Sequence[str], references: Sequence[str], language: str) -> list[float]:
    """The score of each output, 0 to 10; with a single reference all scores are 0.

    The rarity of n-grams is counted over all these references, so a subset of them has other scores.
    """
    reference_words = [alphanumeric(reference, language) for reference in references]
    return cider_of_words([alphanumeric(output, language) for output in hypotheses], reference_words)


def cider_of_words(hypotheses: Sequence[Sequence[str]], references: Sequence[Sequence[str]]) -> list[float]:
    """The scores of `sentence_ciders`, for texts that are split into words."""
    reference_grams = [_grams(reference) for reference in references]
    frequency = Counter(gram for grams in reference_grams for gram in grams)
    rarity = {gram: log(len(references)) - log(count) for gram, count in frequency.items()}
    unseen = log(max(len(references), 1))
    return [
        _similarity(_grams(output), reference, rarity, unseen)
        for output, reference in zip(hypotheses, reference_grams, strict=True)
    ]


def _grams(words: Sequence[str]) -> Grams:
    return Counter(tuple(words[start : start + n]) for n in range(1, ORDER + 1) for start in range(len(words) - n + 1))


def _similarity(output: Grams, reference: Grams, rarity: Mapping[Gram, float], unseen: float) -> float:
    """Ten times the mean over n of equation 5 of the paper."""
    total = 0.0
    for n in range(1, ORDER + 1):
        ours, theirs = _weigh(output, n, rarity, unseen), _weigh(reference, n, rarity, unseen)
        norms = _norm(ours) * _norm(theirs)
        if norms:
            clipped = (min(weight, theirs.get(gram, 0.0)) * theirs.get(gram, 0.0) for gram, weight in ours.items())
            total += sum(clipped) / norms
    # pycocoevalcap takes lengths in pairs of words.
    difference = _count(output, 2) - _count(reference, 2)
    return 10 * total / ORDER * exp(-(difference**2) / (2 * SIGMA**2))


def _weigh(grams: Grams, n: int, rarity: Mapping[Gram, float], unseen: float) -> dict[Gram, float]:
    return {gram: count * rarity.get(gram, unseen) for gram, count in grams.items() if len(gram) == n}


def _norm(weights: Mapping[Gram, float]) -> float:
    return sqrt(sum(weight**2 for weight in weights.values()))


def _count(grams: Grams, n: int) -> int:
    return sum(count for gram, count in grams.items() if len(gram) == n)
