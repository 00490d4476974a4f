"""Copied text: a line as the target of itself, some of whose words are left out (Currey, Miceli Barone, Heafield 2017).

The words that are left out are the noise of Hill et al. (2016) and Lample et al. (2018, section 2.3): without it a
model learns to copy, and nothing of the text.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np

from subgraft.subwords.vocabulary.words import text_words


def copied(lines: Iterable[str], drop: float, seed: int) -> Iterator[tuple[str, str]]:
    """(source, target) of every line: the line with words left out, and the line; a function of (seed, place, line)."""
    for place, line in enumerate(lines):
        yield without_words(line, drop, np.random.default_rng([seed, place])), line


def without_words(line: str, drop: float, generator: np.random.Generator) -> str:
    """The line, each of its words left out with probability `drop`, but never all of them."""
    words = text_words(line)
    kept = generator.random(len(words)) >= drop
    if not kept.any() and words:
        kept[generator.integers(len(words))] = True
    return "".join(word for word, keep in zip(words, kept.tolist(), strict=True) if keep).strip()
