"""CIDEr-D: rare n-grams that an output shares with its own reference (Vedantam et al., CVPR 2015, sections 4 and 5).

N-grams of words, n from 1 to 4, are weighted by how rare they are among the references. An output's vector is compared
with its reference's; weights are clipped at the reference's, and a difference in length is penalised. It equals
pycocoevalcap, which the field reports, except for the words: its tokenizer needs Java, so words are those of ROUGE.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from math import exp, log, sqrt
from typing import TypeAlias

from subgraft.evaluation.metrics.metric_words import alphanumeric, is_chinese

ORDER = 4
SIGMA = 6.0
Gram: TypeAlias = tuple[str, ...]
Grams: TypeAlias = Counter[Gram]


def signature(language: str) -> str:
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
