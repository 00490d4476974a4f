"""The noise of denoising pretraining: text infilling and sentence permutation (mBART; Liu et al., TACL 2020, 2.2)."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from subgraft.config.objectives import DenoisingSettings


def infill(
    words: Sequence[Sequence[int]], mask_id: int, settings: DenoisingSettings, generator: np.random.Generator
) -> list[int]:
    """The tokens of a block's words, spans of whole words replaced by one mask each.

    `mask_share` of the words is covered, exactly in expectation however few they are. Spans lie anywhere, each
    arrangement as likely as any other; one of length zero inserts a mask. The result has no more tokens than the words.
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
    """Poisson lengths of spans that cover so many words, the last cut to fit.

    Drawn until they do, so that e^-rate of them are zero in expectation, whatever `words` is (Wald's identity). There
    are never more spans than words: zeros beyond that, which next to no text but the shortest has, are left out.
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
    """A whole number next to `value`, which it is in expectation."""
    below = math.floor(value)
    return below + int(generator.random() < value - below)


def permute(sentences: Sequence[list[int]], generator: np.random.Generator) -> list[list[int]]:
    """The sentences of a block in a random order."""
    return [sentences[i] for i in generator.permutation(len(sentences))]
