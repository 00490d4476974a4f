"""The examples of several languages that an epoch has: each language by p^alpha / sum p^alpha of its share p."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from subgraft.data.text.languages import repeated


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
        seed: Of the samples.
    """

    def __init__(self, languages: Sequence[str], sizes: Sequence[int], alpha: float, seed: int) -> None:
        of_language: Counter[str] = Counter()
        for language, size in zip(languages, sizes, strict=True):
            of_language[language] += size
        wanted = repeated(of_language, alpha)
        self._sizes, self._seed = list(sizes), seed
        pairs = list(zip(languages, sizes, strict=True))
        self._counts = [round(size * wanted[name] / of_language[name]) if size else 0 for name, size in pairs]
        self.rounds = [-(-count // size) if size else 0 for count, size in zip(self._counts, sizes, strict=True)]
        numbered = [size * rounds for size, rounds in zip(sizes, self.rounds, strict=True)]
        self._bounds = np.concatenate([[0], np.cumsum(numbered, dtype=np.int64)])

    def __len__(self) -> int:
        """How many numbers there are; an epoch has a part of them."""
        return int(self._bounds[-1])

    def epoch(self, epoch: int) -> np.ndarray:
        """The numbers of an epoch's examples, ascending."""
        chosen = []
        for text, (size, count) in enumerate(zip(self._sizes, self._counts, strict=True)):
            rounds, rest = divmod(count, size) if size else (0, 0)
            last = np.random.default_rng([self._seed, epoch, text]).choice(size, rest, replace=False)
            chosen.append(
                np.concatenate([np.arange(rounds * size), rounds * size + np.sort(last)]) + self._bounds[text]
            )
        return np.concatenate(chosen)

    def at(self, number: int, epoch: int) -> Drawn:
        """What a number stands for in an epoch."""
        text = int(np.searchsorted(self._bounds, number, side="right")) - 1
        done, place = divmod(number - int(self._bounds[text]), self._sizes[text])
        return Drawn(text, place, epoch * self.rounds[text] + done)

    def numbered(self, values: Sequence[np.ndarray]) -> np.ndarray:
        """Values of each text's examples by number [len]."""
        return np.concatenate([np.tile(own, rounds) for own, rounds in zip(values, self.rounds, strict=True)])
