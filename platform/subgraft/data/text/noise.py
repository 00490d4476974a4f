"""The noise of denoising pretraining (BART; Lewis et al., ACL 2020, section 2.2): five noises, alone and together."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np

from subgraft.config.settings_base import NoiseName
from subgraft.subwords.vocabulary.tokenizer import Tokenizer
from subgraft.subwords.vocabulary.words import WordBoundaries


class Noise:
    """The configured noises of a vocabulary's token sequences.

    They apply in the order of BART's code: sentences are permuted, then tokens masked and deleted, then spans of words
    infilled, then the result is rotated. Masking and deletion draw different tokens.
    """

    def __init__(self, shares: Mapping[NoiseName, float], poisson_lambda: float, tokenizer: Tokenizer) -> None:
        """shares: those of the noises, by name.  poisson_lambda: the mean number of words that one mask replaces."""
        self._shares, self._poisson_lambda = shares, poisson_lambda
        self._boundaries = WordBoundaries.of(tokenizer)
        self._mask = tokenizer.special["mask"]

    def __call__(
        self, sentences: Sequence[list[int]], separator: Sequence[int], generator: np.random.Generator
    ) -> list[int]:
        """The noised tokens of a block; `separator` has the tokens between two sentences, which count as words."""
        if self._applies("permutation", generator):
            sentences = permute(sentences, generator)
        tokens = joined(sentences, separator)
        masked, deleted = self._share("masking"), self._share("deletion")
        if masked or deleted:
            tokens = mask_and_delete(tokens, self._mask, masked, deleted, generator)
        if share := self._share("infilling"):
            tokens = infill(self._boundaries.words(tokens), self._mask, share, self._poisson_lambda, generator)
        return rotate(tokens, generator) if self._applies("rotation", generator) else tokens

    def _share(self, name: NoiseName) -> float:
        return self._shares.get(name, 0.0)

    def _applies(self, name: NoiseName, generator: np.random.Generator) -> bool:
        share = self._share(name)
        return share == 1.0 or (share > 0.0 and generator.random() < share)


def joined(sentences: Sequence[list[int]], separator: Sequence[int]) -> list[int]:
    """Sentences with the separator between them."""
    tokens: list[int] = []
    for position, sentence in enumerate(sentences):
        tokens.extend([*separator, *sentence] if position else sentence)
    return tokens


def permute(sentences: Sequence[list[int]], generator: np.random.Generator) -> list[list[int]]:
    """The sentences of a block in a random order."""
    return [sentences[i] for i in generator.permutation(len(sentences))]


def mask_and_delete(
    tokens: Sequence[int], mask_id: int, masked: float, deleted: float, generator: np.random.Generator
) -> list[int]:
    """Mask a share of the tokens, each by its own mask token, and delete another share without a mark."""
    order = generator.permutation(len(tokens))
    masked_count = _round_randomly(masked * len(tokens), generator)
    deleted_count = min(_round_randomly(deleted * len(tokens), generator), len(tokens) - masked_count)
    noised = np.array(tokens, dtype=np.int64)
    noised[order[:masked_count]] = mask_id
    remaining: list[int] = np.delete(noised, order[masked_count : masked_count + deleted_count]).tolist()
    return remaining


def rotate(tokens: list[int], generator: np.random.Generator) -> list[int]:
    """The tokens from a uniformly drawn one on, followed by those before it."""
    if not tokens:
        return tokens
    first = int(generator.integers(len(tokens)))
    return tokens[first:] + tokens[:first]


def infill(
    words: Sequence[Sequence[int]],
    mask_id: int,
    share: float,
    poisson_lambda: float,
    generator: np.random.Generator,
) -> list[int]:
    """The tokens of a block's words, with each of several spans of words replaced by one mask.

    The expected share of masked words is exactly `share`, however few words there are. All arrangements of spans are
    equally likely; a span of length zero inserts a mask. The result is never longer than the input.
    """
    covered = _round_randomly(share * len(words), generator)
    lengths = generator.permutation(span_lengths(covered, poisson_lambda, generator))
    # The sequence of masked spans and of single words that remain.
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
    remaining, zeros = words, 0
    while remaining:
        length = min(int(generator.poisson(rate)), remaining)
        remaining -= length
        if length:
            spans.append(length)
        else:
            zeros += 1
    return spans + [0] * min(zeros, words - len(spans))


def _round_randomly(value: float, generator: np.random.Generator) -> int:
    """`value` randomly rounded up or down to an integer with expectation `value`."""
    floor = math.floor(value)
    return floor + int(generator.random() < value - floor)
