"""The noise of denoising pretraining: text infilling and sentence permutation (mBART; Liu et al., TACL 2020, 2.2)."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from subgraft.settings.domains import NoiseSettings


def word_starts(tokens: Sequence[int], word_initial: np.ndarray) -> list[int]:
    """Positions at which words of a token sequence begin; the first token always begins one."""
    return [i for i, token in enumerate(tokens) if i == 0 or word_initial[token]]


def infill(
    tokens: Sequence[int],
    word_initial: np.ndarray,
    mask_id: int,
    settings: NoiseSettings,
    generator: np.random.Generator,
) -> list[int]:
    """Replace spans of whole words by one mask each until `mask_share` of the words is covered.

    Span lengths are Poisson; a span of length zero inserts a mask without covering anything, and does not count.
    word_initial: [V] whether a token of the vocabulary begins a word.
    """
    starts = [*word_starts(tokens, word_initial), len(tokens)]
    words = len(starts) - 1
    budget = round(settings.mask_share * words)
    covered = np.zeros(words, dtype=bool)
    opens = np.zeros(words + 1, dtype=bool)
    while covered.sum() < budget:
        length = min(int(generator.poisson(settings.poisson_lambda)), budget - int(covered.sum()))
        first = int(generator.integers(0, words))
        if covered[first : first + max(length, 1)].any():
            length = _free_run(covered, first, length)
            if length == 0:
                continue
        opens[first] = True
        covered[first : first + length] = True
    return _emit(tokens, starts, covered, opens, mask_id)


def _free_run(covered: np.ndarray, first: int, length: int) -> int:
    """The longest stretch of uncovered words from `first`, at most `length`."""
    run = 0
    while run < length and first + run < len(covered) and not covered[first + run]:
        run += 1
    return run


def _emit(
    tokens: Sequence[int], starts: Sequence[int], covered: np.ndarray, opens: np.ndarray, mask_id: int
) -> list[int]:
    noised: list[int] = []
    for word in range(len(starts) - 1):
        if opens[word]:
            noised.append(mask_id)
        if not covered[word]:
            noised.extend(tokens[starts[word] : starts[word + 1]])
    return noised


def permute(sentences: Sequence[list[int]], generator: np.random.Generator) -> list[list[int]]:
    """The sentences of a document in a random order."""
    return [sentences[i] for i in generator.permutation(len(sentences))]
