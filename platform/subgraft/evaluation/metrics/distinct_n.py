"""Distinct-n: how varied texts are, as the share of n-grams that are different (Li et al., NAACL 2016, section 5)."""

from __future__ import annotations

from collections.abc import Sequence

from subgraft.evaluation.metrics.metric_words import tokens


def distinct(texts: Sequence[str], language: str, n: int) -> float:
    """Different n-grams of words, over all in all texts; 0 where there is none.

    It falls with the number of texts, so only equal numbers of them compare.
    """
    found = [gram for text in texts for gram in _grams(tokens(text, language), n)]
    return len(set(found)) / len(found) if found else 0.0


def _grams(words: Sequence[str], n: int) -> list[tuple[str, ...]]:
    return [tuple(words[start : start + n]) for start in range(len(words) - n + 1)]
