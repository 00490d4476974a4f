"""Language sampling by p_i^alpha / sum_j p_j^alpha, which oversamples small languages.

Conneau and Lample, "Cross-lingual Language Model Pretraining" (NeurIPS 2019), section 3.1. Liu et al. (TACL 2020),
section 2.1, write it as weights lambda_i = (1/p_i) p_i^alpha / sum_j p_j^alpha *on* p_i: apply only one of the two.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import islice

import numpy as np

from subgraft.data.text.batches import evenly_spaced_places
from subgraft.data.text.segments import Text


def code_token(language: str) -> str:
    """A language's special token in mBART's format: en_XX."""
    return language if "_" in language else f"{language}_XX"


def shares(counts: Mapping[str, int], alpha: float) -> dict[str, float]:
    """The sampling probability of each language.

    Args:
        counts: Segments or characters of each language; a language with 0 is never drawn.
        alpha: 1 leaves the shares unchanged, 0 makes them equal.
    """
    present = {language: count for language, count in counts.items() if count > 0}
    if not present:
        raise ValueError("no language has any text")
    # Powers of counts would overflow for a large alpha, powers of shares cannot.
    whole = sum(present.values())
    powers = {language: (count / whole) ** alpha for language, count in present.items()}
    total = sum(powers.values())
    return {language: powers.get(language, 0.0) / total for language in counts}


def repeated(sizes: Mapping[str, int], alpha: float) -> dict[str, int]:
    """Segments of each language in an epoch with these shares that contains all text at least once."""
    drawn = shares(sizes, alpha)
    whole = max(size / drawn[language] for language, size in sizes.items() if size)
    return {language: max(size, round(whole * drawn[language])) for language, size in sizes.items()}


def repeated_places(size: int, count: int) -> np.ndarray:
    """`count` indices into a text of `size` segments [count]: complete rounds, then evenly spaced indices."""
    whole, rest = divmod(count, size)
    return np.concatenate([np.tile(np.arange(size), whole), evenly_spaced_places(size, rest)])


def oversampled(texts: Sequence[tuple[str, Text]], alpha: float) -> Iterator[tuple[str, Text]]:
    """Texts with their languages; lines of oversampled languages are repeated."""
    sizes: Counter[str] = Counter()
    for language, lines in texts:
        sizes[language] += len(lines)
    wanted = repeated(sizes, alpha)
    for language, lines in texts:
        count = round(len(lines) * wanted[language] / sizes[language])
        yield language, lines.take(repeated_places(len(lines), count))


def allotted(sizes: Mapping[str, int], alpha: float, total: int) -> dict[str, int]:
    """How many of `total` segments each language gets: its share, rounded so that they add up (largest remainders)."""
    exact = {language: share * total for language, share in shares(sizes, alpha).items()}
    floors = {language: int(value) for language, value in exact.items()}
    by_remainder = sorted(exact, key=lambda language: floors[language] - exact[language])
    for language in by_remainder[: total - sum(floors.values())]:
        floors[language] += 1
    return floors


def balanced(
    texts: Mapping[str, Callable[[], Iterator[str]]], sizes: Mapping[str, int], alpha: float, total: int, seed: int = 1
) -> Iterator[str]:
    """`total` segments of several languages by their shares, for learning a joint vocabulary.

    A text is repeated completely as often as it fits into its language's count; a random sample, in order, fills the
    rest.

    Args:
        texts: Opens each language's text.
        sizes: Segments of each text.
    """
    for number, (language, count) in enumerate(allotted(sizes, alpha, total).items()):
        if count:
            whole, rest = divmod(count, sizes[language])
            for _ in range(whole):
                yield from texts[language]()
            yield from _sampled(texts[language](), sizes[language], rest, random.Random(f"{seed} {number}"))


def _sampled(lines: Iterator[str], size: int, count: int, rng: random.Random) -> Iterator[str]:
    """A uniform sample of `count` of the lines, in order (Knuth, The Art of Computer Programming 2, algorithm S)."""
    left = count
    for at, line in enumerate(islice(lines, size)):
        if left and rng.random() * (size - at) < left:
            left -= 1
            yield line
