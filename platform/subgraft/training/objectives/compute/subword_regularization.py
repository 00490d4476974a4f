"""Subword regularisation: texts are segmented at random in every epoch."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from subgraft.config.settings_base import SideName
from subgraft.config.vocabularies import SamplingSettings
from subgraft.data.text.encoded import Sequences
from subgraft.subwords.vocabulary.sampling import Sampler
from subgraft.subwords.vocabulary.tokenizer import Tokenizer

# The number of texts from which the growth of sampled segmentations is estimated.
_SAMPLE_SIZE = 500


@dataclass(frozen=True)
class Sampling:
    """The sampling settings of an objective, and their seed."""

    settings: SamplingSettings
    seed: int

    def of(self, side: SideName, texts: Sequence[str], tokenizer: Tokenizer, plain: Sequences, room: int) -> Subwords:
        """The texts of a side: sampled, or plain if the settings exclude this side."""
        if side not in self.settings.sides:
            return Subwords(plain)
        stream = int(side == "decoder")
        return SampledSubwords(plain, texts, Sampler(tokenizer, self.settings), room, (self.seed, stream))


@dataclass(frozen=True)
class Subwords:
    """Texts in their plain segmentation, the same in every epoch."""

    plain: Sequences

    def at(self, index: int, epoch: int) -> list[int]:
        """The tokens of a text."""
        del epoch
        return self.plain[index]

    @property
    def growth(self) -> float:
        """The average number of tokens of `at` per token of the plain segmentation."""
        return 1.0


@dataclass(frozen=True)
class SampledSubwords(Subwords):
    """Texts segmented at random as a function of (seed, epoch, index).

    plain: the deterministic segmentation, of at most `room` tokens each. It replaces samples of more than `room`
    tokens, so that sampling never truncates a sentence.
    """

    texts: Sequence[str]
    sampler: Sampler
    room: int
    seeds: tuple[int, int]

    def at(self, index: int, epoch: int) -> list[int]:
        seed, stream = self.seeds
        tokens = self.sampler.sample(self.texts[index], np.random.default_rng([seed, epoch, index, stream]))
        return tokens if len(tokens) <= self.room else self.plain[index]

    @cached_property
    def growth(self) -> float:
        sample = range(min(_SAMPLE_SIZE, len(self.plain)))
        plain = int(self.plain.lengths[: len(sample)].sum())
        return max(1.0, sum(len(self.at(index, 0)) for index in sample) / max(plain, 1))
