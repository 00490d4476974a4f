"""ROUGE-L: the longest common subsequence of two sentences (Lin 2004, section 3.1).

The package rouge-score is not used: its tokenizer drops every letter outside a to z, so that no French or Chinese text
survives it.
"""

from __future__ import annotations

from collections.abc import Sequence

from subgraft.metrics.words import alphanumeric, is_chinese


def signature(language: str) -> str:
    """Under what settings `sentence_rouge` scores."""
    tokenizer = "zh-alphanumeric" if is_chinese(language) else "alphanumeric"
    return f"nrefs:1|case:lc|tok:{tokenizer}|stem:no|beta:1|corpus:mean-of-sentences"


def sentence_rouge(hypothesis: str, reference: str, language: str) -> float:
    """The F-score of equation 4 with β = 1, in 0 to 1; 0 where either side has no word."""
    output, wanted = alphanumeric(hypothesis, language), alphanumeric(reference, language)
    common = longest_common_subsequence(output, wanted)
    # With β = 1 the harmonic mean of precision and recall is twice the match over both lengths.
    return 2 * common / (len(output) + len(wanted)) if common else 0.0


def longest_common_subsequence(first: Sequence[str], second: Sequence[str]) -> int:
    """The length of the longest sequence of words found in both in this order, gaps allowed."""
    row = [0] * (len(second) + 1)
    for word in first:
        diagonal = 0
        for place, other in enumerate(second, 1):
            above = row[place]
            row[place] = diagonal + 1 if word == other else max(above, row[place - 1])
            diagonal = above
    return row[-1]
