"""The noise of denoising pretraining: text infilling and sentence permutation (mBART; Liu et al., TACL 2020, 2.2)."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from subgraft.config.objectives import DenoisingSettings


def infill(
    words: Sequence[Sequence[int]], mask_id: int, settings: DenoisingSettings, generator: np.random.Generator
) -> list[int]:
    """The tokens of a block's words, with each of several spans of words replaced by one mask.

    The expected share of masked words is exactly `mask_share`, however few words there are. All arrangements of spans
    are equally likely; a span of length zero inserts a mask. The result is never longer than the input.
    """
    covered = _rounded(settings.mask_share * len(words), generator)
    lengths = generator.permutation(span_lengths(covered, settings.poisson_lambda, generator))
    # A row of spans and of single words that stay.
    is_span = np.zeros(len(words) - covered + len(lengths), dtype=bool)
    is_span[generator.choice(len(is_span), size=len(lengths), replace=False)] = True
    steps = np.ones(len(is_span), dtype=np.int64)
    steps[is_span] = lengths
    noised: list[int] = []
    for first, masked in zip((np.cumsum(steps) - steps).tolist(), is_span.tolist(), strict=True):
        noised.extend((mask_id,) if masked else words[first])
    return noised


def span_lengths(words: int, rate: float, generator: np.random.Generator) -> list[int]:
    """Poisson lengths of spans that cover `words` words in total; the last is shortened to fit.

    Lengths are drawn until they cover all words, so the expected share of zeros is e^-rate for any `words` (Wald's
    identity). There are never more spans than words: surplus zeros, which only very short texts have, are dropped.
    """
    spans: list[int] = []
    left, zeros = words, 0
    while left:
        length = min(int(generator.poisson(rate)), left)
        left -= length
        if length:
            spans.append(length)
        else:
            zeros += 1
    return spans + [0] * min(zeros, words - len(spans))


def _rounded(value: float, generator: np.random.Generator) -> int:
    """`value` randomly rounded up or down to an integer with expectation `value`."""
    below = math.floor(value)
    return below + int(generator.random() < value - below)


def permute(sentences: Sequence[list[int]], generator: np.random.Generator) -> list[list[int]]:
    """The sentences of a block in a random order."""
    return [sentences[i] for i in generator.permutation(len(sentences))]
