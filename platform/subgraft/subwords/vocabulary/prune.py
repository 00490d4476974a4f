"""Learn a vocabulary in which every piece occurs at least `min_count` times in the text.

A vocabulary larger than requested is learnt. Pieces that occur too rarely in the text segmented by that vocabulary are
removed, rarest first, until the requested size remains; their text is segmented into other pieces. The reason is that
rarely used pieces have rarely trained embeddings: Gowda and May (2020, *Finding the Optimal Vocabulary Size for Neural
Machine Translation*, section 5) require enough examples of each softmax class, but reduce the vocabulary size instead.

Single characters, bytes and special tokens are never removed, so all text can still be encoded. In BPE the pieces that
a longer one is merged from also remain, however rare they are by themselves (the scaffolds of Lian et al. 2024,
*Scaffold-BPE*), because the longer piece could not be formed without them.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import chain, count
from typing import NamedTuple

import tokenizers

from subgraft.subwords.vocabulary import sentencepiece_model
from subgraft.subwords.vocabulary.entry import piece_length
from subgraft.subwords.vocabulary.learning_errors import TooLargeError, too_rare
from subgraft.subwords.vocabulary.tokenizer_spec import intermediate_pieces, merge_ranks, remove_pieces
from subgraft.subwords.vocabulary.words import piece_counts, segment_words, word_counts


class Learnt(NamedTuple):
    """A learnt tokenizer, and the SentencePiece model it was converted from, if any, and how."""

    backend: tokenizers.Tokenizer
    model: bytes | None = None
    convert: Callable[[bytes], tokenizers.Tokenizer] = sentencepiece_model.convert

    def without(self, pieces: Collection[str]) -> Learnt:
        """The vocabulary without some ordinary pieces; ids are renumbered without gaps."""
        if self.model is None:
            return Learnt(remove_pieces(self.backend, pieces))
        model = sentencepiece_model.remove_pieces(self.model, pieces)
        return Learnt(self.convert(model), model, self.convert)


def learn_used(
    learn: Callable[[int], Learnt], lines: Iterable[str], size: int, min_count: int, appended: int = 0
) -> Learnt:
    """A vocabulary of exactly `size` pieces whose removable pieces occur at least `min_count` times in the text.

    If the vocabulary learnt at `size` has no rare pieces, it is the result.

    Args:
        learn: Learns a vocabulary of a size; raises TooLargeError.
        size: The number of pieces, including special tokens.
        appended: The number of special tokens in `size` that `learn` does not add.

    Raises:
        UserError: No such vocabulary exists; the message has the largest possible size.
    """
    first = learn(size)
    words = word_counts(first.backend, lines)
    possible = 0
    for learnt in chain([first], _larger_vocabularies(learn, size)):
        used = _raise_threshold(_UsedVocabulary.of(learnt, words), min_count)
        trimmed = _trim_to_size(used, size - appended, min_count)
        if trimmed is not None:
            return trimmed.learnt
        # A request for another size would not learn `first`, so the size that it reaches is not suggested.
        possible = possible if learnt is first else max(possible, len(used) + appended)
    raise too_rare(size, min_count, possible)


def _larger_vocabularies(learn: Callable[[int], Learnt], size: int) -> Iterator[Learnt]:
    """Vocabularies with sizes of the powers of two above `size`, and the largest that the text supports.

    A smaller size sees the same candidates and more, so the size suggested by an error can be learnt.
    """
    for exponent in count(size.bit_length()):
        try:
            learnt = learn(2**exponent)
        except TooLargeError as error:
            yield learn(error.possible)
            return
        yield learnt


@dataclass(frozen=True)
class _UsedVocabulary:
    """A vocabulary and the text segmented by it.

    Attributes:
        pieces: Removable pieces, by id.
        parts: The pieces that each is merged from, in BPE.
        segmentations: The pieces of each word.
    """

    learnt: Learnt
    words: Mapping[str, int]
    pieces: tuple[str, ...]
    parts: Mapping[str, frozenset[str]]
    segmentations: Mapping[str, tuple[str, ...]]

    @classmethod
    def of(cls, learnt: Learnt, words: Mapping[str, int]) -> _UsedVocabulary:
        pieces, parts = _longer_pieces(learnt.backend), {}
        costs: dict[str, float] = {}
        if learnt.model is not None:
            costs = {piece: -score for piece, score in sentencepiece_model.ordinary_pieces(learnt.model).items()}
            pieces = [piece for piece in costs if len(piece) > 1]
        if isinstance(learnt.backend.model, tokenizers.models.BPE):
            # SentencePiece ranks merges by their result, tokenizers by their pair.
            ranks = {} if costs else merge_ranks(json.loads(learnt.backend.to_str())["model"])
            rank = (lambda pair: costs.get("".join(pair))) if costs else ranks.get
            parts = {piece: frozenset(intermediate_pieces(piece, rank) - {piece}) for piece in pieces}
        return cls(learnt, words, tuple(pieces), parts, segment_words(learnt.backend, words))

    def __len__(self) -> int:
        return int(self.learnt.backend.get_vocab_size())

    @cached_property
    def uses(self) -> Mapping[str, int]:
        """How often each piece occurs."""
        return piece_counts(self.words, self.segmentations)

    def rarest(self, below: int | None = None) -> list[str]:
        """Pieces with fewer than `below` occurrences that no other piece is merged from, rarest and highest id first.

        Removing one of them does not affect other pieces.
        """
        scaffolds = frozenset[str]().union(*(self.parts[piece] for piece in self.pieces if piece in self.parts))
        removable = [piece for piece in reversed(self.pieces) if piece not in scaffolds]
        return sorted((p for p in removable if below is None or self.uses[p] < below), key=self.uses.__getitem__)

    def without(self, pieces: Sequence[str]) -> _UsedVocabulary:
        removed, learnt = frozenset(pieces), self.learnt.without(pieces)
        # Words without these pieces are segmented as before: their best segmentation remains possible.
        affected = [word for word, pieces in self.segmentations.items() if not removed.isdisjoint(pieces)]
        remaining = tuple(piece for piece in self.pieces if piece not in removed)
        return replace(
            self,
            learnt=learnt,
            pieces=remaining,
            segmentations={**self.segmentations, **segment_words(learnt.backend, affected)},
        )


def _longer_pieces(backend: tokenizers.Tokenizer) -> list[str]:
    """Pieces of more than one character, by id."""
    vocabulary = backend.get_vocab(with_added_tokens=True)
    added = {token.content for token in backend.get_added_tokens_decoder().values()}
    return [p for p in sorted(vocabulary, key=vocabulary.__getitem__) if p not in added and piece_length(p) > 1]


def _raise_threshold(used: _UsedVocabulary, min_count: int) -> _UsedVocabulary:
    """Remove rare pieces by a threshold that doubles, because removing a piece makes its parts more frequent."""
    threshold = 1
    while threshold < min_count:
        used = _remove_rare(used, threshold)
        threshold *= 2
    return _remove_rare(used, min_count)


def _remove_rare(used: _UsedVocabulary, min_count: int) -> _UsedVocabulary:
    while rare := used.rarest(min_count):
        used = used.without(rare)
    return used


def _trim_to_size(used: _UsedVocabulary, size: int, min_count: int) -> _UsedVocabulary | None:
    """Reduce to the `size` most used pieces; None if other pieces become too rare, or if there are fewer pieces."""
    while len(used) > size:
        candidates = (
            _remove_rare(used.without(removed), min_count)
            for removed in _removal_batches(used.rarest(), len(used) - size)
        )
        fitting = next((candidate for candidate in candidates if len(candidate) >= size), None)
        if fitting is None:
            return None
        used = fitting
    return used if len(used) == size else None


def _removal_batches(rarest: Sequence[str], excess: int) -> Iterator[Sequence[str]]:
    """Batches of pieces to try to remove, rarest first: half of the excess, a quarter, …, then each piece alone."""
    count = -(-excess // 2)
    while count > 1:
        yield rarest[:count]
        count //= 2
    yield from ([piece] for piece in rarest)
