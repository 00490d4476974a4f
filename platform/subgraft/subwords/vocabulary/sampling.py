"""Subword regularisation: segmentations sampled from unigram probabilities, or by BPE-dropout.

All randomness comes from the caller's generator; the libraries' own sampling cannot guarantee that.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import groupby
from typing import Any, Protocol

import numpy as np

from subgraft.base.errors import UserError
from subgraft.config.vocabularies import SamplingSettings
from subgraft.subwords.vocabulary.entry import Mark
from subgraft.subwords.vocabulary.tokenizer import Tokenizer
from subgraft.subwords.vocabulary.tokenizer_description import merges_of
from subgraft.subwords.vocabulary.words import WordSplitter

# SentencePiece's penalty on an unknown character, below the least probable piece.
UNKNOWN_PENALTY = 10.0
CACHED_WORDS = 1 << 16
_RANDOM_BLOCK = 64
_NO_PIECE = -1


class _WordSampler(Protocol):
    def __call__(self, word: str, draws: Iterator[float]) -> list[int]: ...


# Returns the ids of a character that has no piece of its own.
Speller = Callable[[str], list[int]]


class Sampler:
    """Samples segmentations; equal states of the generator give equal segmentations.

    Raises UserError for a vocabulary that is neither unigram nor character-level BPE.
    """

    def __init__(self, tokenizer: Tokenizer, settings: SamplingSettings) -> None:
        self._guard, self._split = tokenizer.guard, WordSplitter(tokenizer.backend)
        self._symbols = {symbol: token for token, symbol in tokenizer.symbols.items()}
        self._unknown = tokenizer.special["unk"]
        self._sample_word = _word_sampler(tokenizer.specification["model"], tokenizer, settings)

    def sample(self, text: str, generator: np.random.Generator) -> list[int]:
        """Ids of a text, without special tokens; neighbouring unknown characters are one unknown token."""
        draws = _uniform(generator)
        (text,) = self._guard.checked([text])
        ids: list[int] = []
        for word, is_symbol in self._split(text):
            if is_symbol and word in self._symbols:
                ids.append(self._symbols[word])
            else:
                ids += self._fuse_unknown(self._sample_word(word, draws))
        return ids

    def _fuse_unknown(self, ids: list[int]) -> list[int]:
        if self._unknown not in ids:
            return ids
        return [i for token, run in groupby(ids) for i in ((token,) if token == self._unknown else run)]


def _word_sampler(model: Mapping[str, Any], tokenizer: Tokenizer, settings: SamplingSettings) -> _WordSampler:
    if model["type"] == "Unigram":
        # Byte pieces are not text, even if a text spells their names.
        not_text = tokenizer.special_ids.union(tokenizer.symbols, tokenizer.byte_ids.values())
        pieces = {piece: (i, score) for i, (piece, score) in enumerate(model["vocab"]) if i not in not_text}
        return UnigramLattice(pieces, _make_speller(tokenizer), settings.alpha)
    if model["type"] == "BPE" and tokenizer.mark is not Mark.BYTELEVEL:
        return BpeDropout(model["vocab"], list(merges_of(model)), _make_speller(tokenizer), settings.dropout)
    raise UserError("only unigram vocabularies and BPE vocabularies of characters can be sampled from")


def _make_speller(tokenizer: Tokenizer) -> Speller:
    """A function that spells a character in bytes if the vocabulary has all of them, else as one unknown token."""

    def spell(character: str) -> list[int]:
        encoded = character.encode("utf-8")
        ids = [tokenizer.byte_ids[byte] for byte in encoded if byte in tokenizer.byte_ids]
        return ids if len(ids) == len(encoded) else [tokenizer.special["unk"]]

    return spell


def _uniform(generator: np.random.Generator) -> Iterator[float]:
    """Uniform numbers in [0, 1), drawn in blocks, because one call per number would dominate the running time."""
    while True:
        yield from generator.random(_RANDOM_BLOCK).tolist()


class UnigramLattice:
    """Samples segmentations x of a word with probability proportional to P(x)^alpha (Kudo 2018, section 3.3).

    Forward filtering sums the weights of all paths to each position; backward sampling draws pieces from the last to
    the first. A character without a piece is scored as in SentencePiece, and spelled by `spell`.
    """

    def __init__(self, pieces: Mapping[str, tuple[int, float]], spell: Speller, alpha: float) -> None:
        self._pieces = pieces
        self._max_length = max(map(len, pieces), default=1)
        self._spell = spell
        self._unknown = (_NO_PIECE, min((score for _, score in pieces.values()), default=0.0) - UNKNOWN_PENALTY)
        self._alpha = alpha
        self._cached_lattice = lru_cache(maxsize=CACHED_WORDS)(self._forward_filter)

    def __call__(self, word: str, draws: Iterator[float]) -> list[int]:
        lattice = self._cached_lattice(word)
        ids: list[int] = []
        end = len(word)
        while end:
            edges, cumulative = lattice[end - 1]
            sampled = min(bisect_left(cumulative, next(draws)), len(edges) - 1)
            end, token = edges[sampled]
            ids += self._spell(word[end])[::-1] if token == _NO_PIECE else [token]
        return ids[::-1]

    def _forward_filter(self, word: str) -> list[tuple[list[tuple[int, int]], list[float]]]:
        """For each end position: the pieces that end there as (start, id), and their cumulative probabilities."""
        log_sums, lattice = [0.0], []
        for end in range(1, len(word) + 1):
            edges = list(self._edges(word, end))
            weights = [log_sums[start] + self._alpha * score for start, _, score in edges]
            maximum = max(weights)
            log_sums.append(maximum + math.log(sum(math.exp(weight - maximum) for weight in weights)))
            cumulative = np.cumsum([math.exp(weight - log_sums[-1]) for weight in weights]).tolist()
            lattice.append(([(start, token) for start, token, _ in edges], cumulative))
        return lattice

    def _edges(self, word: str, end: int) -> Iterator[tuple[int, int, float]]:
        for start in range(max(0, end - self._max_length), end):
            piece = self._pieces.get(word[start:end])
            if piece is None and start == end - 1:
                piece = self._unknown
            if piece is not None:
                yield (start, *piece)


class BpeDropout:
    """BPE that drops each possible merge with a probability at every step (Provilkov et al. 2020, algorithm 1).

    With probability 0 this is ordinary BPE. `merges` are in rank order.
    """

    def __init__(
        self, vocabulary: Mapping[str, int], merges: Sequence[Sequence[str]], spell: Speller, dropout: float
    ) -> None:
        self._vocabulary = vocabulary
        self._spell = spell
        self._dropout = dropout
        self._merges: dict[tuple[int, int], tuple[int, int]] = {}
        for rank, (left, right) in enumerate(merges):
            pair = (vocabulary[left], vocabulary[right])
            self._merges.setdefault(pair, (rank, vocabulary[left + right]))

    def __call__(self, word: str, draws: Iterator[float]) -> list[int]:
        ids = list[int]()
        for character in word:
            known = self._vocabulary.get(character)
            ids += self._spell(character) if known is None else [known]
        while True:
            possible = (
                (*merge, position)
                for position in range(len(ids) - 1)
                if (merge := self._merges.get((ids[position], ids[position + 1]))) is not None
            )
            applicable = [merge for merge in possible if next(draws) >= self._dropout]
            if not applicable:
                return ids
            # Merges of equal rank have the same result, so `min` selects the leftmost position.
            _, merged, position = min(applicable)
            ids[position : position + 2] = [merged]
