"""Language sampling by p_i^alpha / sum_j p_j^alpha, which oversamples small languages.

Conneau and Lample, "Cross-lingual Language Model Pretraining" (NeurIPS 2019), section 3.1. Liu et al. (TACL 2020),
section 2.1, write it as weights lambda_i = (1/p_i) p_i^alpha / sum_j p_j^alpha *on* p_i: apply only one of the two.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import islice
from typing import NamedTuple

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
    size = sum(present.values())
    powers = {language: (count / size) ** alpha for language, count in present.items()}
    total = sum(powers.values())
    return {language: powers.get(language, 0.0) / total for language in counts}


def repeated(sizes: Mapping[str, int], alpha: float) -> dict[str, int]:
    """The number of segments of each language in the shortest epoch that has these shares and contains all text."""
    probabilities = shares(sizes, alpha)
    total = max(size / probabilities[language] for language, size in sizes.items() if size)
    return {language: max(size, round(total * probabilities[language])) for language, size in sizes.items()}


def repeated_places(size: int, count: int) -> np.ndarray:
    """`count` indices into a text of `size` segments [count]: complete rounds, then evenly spaced indices."""
    rounds, rest = divmod(count, size)
    return np.concatenate([np.tile(np.arange(size), rounds), evenly_spaced_places(size, rest)])


def oversampled(texts: Sequence[tuple[str, Text]], alpha: float) -> Iterator[tuple[str, Text]]:
    """Texts with their languages; lines of oversampled languages are repeated."""
    sizes: Counter[str] = Counter()
    for language, lines in texts:
        sizes[language] += len(lines)
    targets = repeated(sizes, alpha)
    for language, lines in texts:
        count = round(len(lines) * targets[language] / sizes[language])
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
            rounds, rest = divmod(count, sizes[language])
            for _ in range(rounds):
                yield from texts[language]()
            yield from _sampled(texts[language](), sizes[language], rest, random.Random(f"{seed} {number}"))


def _sampled(lines: Iterator[str], size: int, count: int, rng: random.Random) -> Iterator[str]:
    """A uniform sample of `count` of the lines, in order (Knuth, The Art of Computer Programming 2, algorithm S)."""
    remaining = count
    for index, line in enumerate(islice(lines, size)):
        if remaining and rng.random() * (size - index) < remaining:
            remaining -= 1
            yield line


class Drawn(NamedTuple):
    """An example of one text.

    Attributes:
        text: The number of the text.
        place: The example's number in it.
        epoch: The text's own epoch, a new one whenever the example occurs again.
    """

    text: int
    place: int
    epoch: int


class LanguageDraws:
    """Draws of examples by language (Conneau and Lample, NeurIPS 2019, section 3.1; Liu et al., TACL 2020, 2.1).

    An epoch has every example at least once, and those of small languages as often as their probability demands:
    complete rounds, and of the last round a sample that is drawn without replacement as a function of (seed, epoch).
    Examples are numbered round after round, text after text, so equal examples of an epoch have different numbers.

    Args:
        languages: The language of each text [t].
        sizes: The examples of each text [t].
        alpha: 1 leaves the shares unchanged, 0 makes them equal.
        seed: The seed of the samples.
    """

    def __init__(self, languages: Sequence[str], sizes: Sequence[int], alpha: float, seed: int) -> None:
        of_language: Counter[str] = Counter()
        for language, size in zip(languages, sizes, strict=True):
            of_language[language] += size
        targets = repeated(of_language, alpha)
        self._sizes, self._seed = list(sizes), seed
        pairs = list(zip(languages, sizes, strict=True))
        self._counts = [round(size * targets[name] / of_language[name]) if size else 0 for name, size in pairs]
        self.rounds = [-(-count // size) if size else 0 for count, size in zip(self._counts, sizes, strict=True)]
        numbered = [size * rounds for size, rounds in zip(sizes, self.rounds, strict=True)]
        self._bounds = np.concatenate([[0], np.cumsum(numbered, dtype=np.int64)])

    def __len__(self) -> int:
        """The count of numbers; an epoch uses a part of them."""
        return int(self._bounds[-1])

    def epoch(self, epoch: int) -> np.ndarray:
        """The numbers of an epoch's examples, ascending."""
        numbers = []
        for text, (size, count) in enumerate(zip(self._sizes, self._counts, strict=True)):
            rounds, rest = divmod(count, size) if size else (0, 0)
            last = np.random.default_rng([self._seed, epoch, text]).choice(size, rest, replace=False)
            numbers.append(
                np.concatenate([np.arange(rounds * size), rounds * size + np.sort(last)]) + self._bounds[text]
            )
        return np.concatenate(numbers)

    def at(self, number: int, epoch: int) -> Drawn:
        """The example that a number stands for in an epoch."""
        text = int(np.searchsorted(self._bounds, number, side="right")) - 1
        round_number, place = divmod(number - int(self._bounds[text]), self._sizes[text])
        return Drawn(text, place, epoch * self.rounds[text] + round_number)

    def numbered(self, values: Sequence[np.ndarray]) -> np.ndarray:
        """Values of each text's examples by number [len]."""
        return np.concatenate([np.tile(own, rounds) for own, rounds in zip(values, self.rounds, strict=True)])
