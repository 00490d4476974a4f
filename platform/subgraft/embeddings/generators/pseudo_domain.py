"""A pseudo-domain: some upstream sentences with a vocabulary of their own, as a task would come with one.

The vocabulary is learnt on these sentences alone, and the upstream vocabulary is taken without a share of its longer
subwords. So tokens that are new to it make up as much of the text as they do in a true domain, are as long, and are cut
into as many pieces; which no drawing of single tokens does.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import torch
from numpy.typing import NDArray

from subgraft.config.settings_base import VocabularyKind
from subgraft.config.initialisers import NetworkSettings
from subgraft.embeddings.generators.token_pieces import TokenPieces, commonness
from subgraft.subwords.vocabulary.alignment import NEW, align
from subgraft.subwords.vocabulary.entry import Mark
from subgraft.subwords.vocabulary.learn import learn
from subgraft.subwords.vocabulary.learning_errors import TooLargeError
from subgraft.subwords.vocabulary.tokenizer import Tokenizer

# Smaller vocabularies than this are hardly more than bytes and characters.
_SMALLEST = 300


@dataclass(frozen=True)
class PseudoDomain:
    """vocabulary: the domain's own, of n new tokens.  upstream: the vocabulary without what is taken out of it, under
    the same ids.  origins: int64 [size], the upstream id of each token, or NEW.  common: whether it is told how common
    new tokens are.
    """

    vocabulary: Tokenizer
    upstream: Tokenizer
    origins: NDArray[np.int64]
    common: bool

    @classmethod
    def learnt(
        cls, lines: Sequence[str], upstream: Tokenizer, settings: NetworkSettings, rng: np.random.Generator
    ) -> PseudoDomain:
        """Of its sentences, by what is drawn. Raises UserError where these support no vocabulary at all."""
        size = round(len(upstream) * rng.uniform(*settings.vocabulary_size))
        vocabulary = _learnt(lines, size, _kind(upstream, rng))
        longer = [entry for entry in upstream.ids if len(entry.surface) > 1]
        taken_out = rng.random(len(longer)) < rng.uniform(*settings.taken_out)
        reduced = upstream.without([entry for entry, out in zip(longer, taken_out, strict=True) if out])
        known = bool(rng.random() >= settings.unknown_commonness)
        return cls(vocabulary, reduced, align(reduced, vocabulary).origins, known)

    @cached_property
    def new(self) -> list[int]:
        """Its new tokens, by their ids in its vocabulary [n]."""
        return [token for token in np.flatnonzero(self.origins == NEW).tolist() if self.vocabulary.entries[token]]

    @cached_property
    def pieces(self) -> TokenPieces:
        """What a network reads of these."""
        entries = [entry for token in self.new if (entry := self.vocabulary.entries[token]) is not None]
        common = commonness(self.vocabulary)[self.new] if self.common else None
        return TokenPieces.of(self.upstream, entries, common)

    @cached_property
    def absent(self) -> torch.Tensor:
        """Upstream tokens that are none of the domain's [A]; special ones are everybody's."""
        present = set(self.origins.tolist()) | self._special
        return torch.tensor([token for token in range(len(self.upstream)) if token not in present], dtype=torch.long)

    @cached_property
    def _special(self) -> frozenset[int]:
        return frozenset(self.upstream.special.values()) | frozenset(self.upstream.languages.values())


def _kind(upstream: Tokenizer, rng: np.random.Generator) -> VocabularyKind:
    """WordPiece cuts at punctuation, where the others do not; else either of these."""
    if upstream.mark is Mark.WORDPIECE:
        return "wordpiece"
    return "unigram" if rng.random() < 0.75 else "bpe"


def _learnt(lines: Sequence[str], size: int, kind: VocabularyKind) -> Tokenizer:
    """As large a vocabulary as asked for, or as the lines support."""
    bytes_too = kind != "wordpiece"
    try:
        return learn(lines, kind=kind, size=max(size, _SMALLEST), byte_fallback=bytes_too)
    except TooLargeError as error:
        return learn(lines, kind=kind, size=error.possible, byte_fallback=bytes_too)
