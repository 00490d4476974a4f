"""A vocabulary all of whose pieces the text uses, so that none takes a row that is hardly ever trained.

A vocabulary larger than asked for is learnt. Pieces that the text uses too rarely, when that vocabulary cuts it, are
taken out, the rarest first, until as many are left as were asked for; their text stays with other pieces. That each
class of the softmax needs enough examples is the rule of Gowda and May (2020, *Finding the Optimal Vocabulary Size for
Neural Machine Translation*, section 5), who make the vocabulary smaller instead.

Single characters, bytes and special tokens always stay: without them there is text that cannot be spelled. In BPE so
do the pieces that a longer one is merged from, however rarely they stand for themselves (the scaffolds of Lian et al.
2024, *Scaffold-BPE*): without them, the longer one could not be reached.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import chain, count, pairwise
from typing import NamedTuple

import tokenizers

from subgraft.subwords.vocabulary import sentencepiece_model, wordpiece
from subgraft.subwords.vocabulary.learning_errors import TooLargeError, too_rare
from subgraft.subwords.vocabulary.tokenizer_spec import merge_ranks, merged_from, without
from subgraft.subwords.vocabulary.words import cut_words, word_counts


class Learnt(NamedTuple):
    """What a trainer made: the tokenizer, and the SentencePiece model it was converted from, if any."""

    backend: tokenizers.Tokenizer
    model: bytes | None = None

    def without(self, pieces: Collection[str]) -> Learnt:
        """The same vocabulary, ids closed up, without some ordinary pieces."""
        if self.model is None:
            return Learnt(without(self.backend, pieces))
        model = sentencepiece_model.without(self.model, pieces)
        return Learnt(sentencepiece_model.convert(model), model)


def learn_used(
    learn: Callable[[int], Learnt], lines: Iterable[str], size: int, min_count: int, appended: int = 0
) -> Learnt:
    """A vocabulary of exactly `size` pieces; all that may be removed are used `min_count` times or more in the text.

    learn: learns one of a given size, and raises TooLargeError.  appended: how many pieces of a size are special tokens
    that `learn` leaves out. Where what is learnt at `size` has no rare pieces, it is the answer. Raises UserError where
    there is no such vocabulary, and tells the size of one that there is.
    """
    first = learn(size)
    words = word_counts(first.backend, lines)
    possible = 0
    for learnt in chain([first], _larger(learn, size)):
        used = _risen(_Used.of(learnt, words), min_count)
        trimmed = _trimmed(used, size - appended, min_count)
        if trimmed is not None:
            return trimmed.learnt
        # What was learnt at this very size would not be there to begin from, were another size asked for.
        possible = possible if learnt is first else max(possible, len(used) + appended)
    raise too_rare(size, min_count, possible)


def _larger(learn: Callable[[int], Learnt], size: int) -> Iterator[Learnt]:
    """Vocabularies of the powers of two beyond the size, and the largest that the text gives.

    They are the same ones for smaller sizes, and more, so that a size which a refusal names can be had.
    """
    for exponent in count(size.bit_length()):
        try:
            learnt = learn(2**exponent)
        except TooLargeError as error:
            yield learn(error.possible)
            return
        yield learnt


@dataclass(frozen=True)
class _Used:
    """A vocabulary and what the text makes of it.

    pieces: those that may go, if nothing else forbids it, by id.  parts: what each is merged from, in BPE.  cuts: the
    pieces of each word.
    """

    learnt: Learnt
    words: Mapping[str, int]
    pieces: tuple[str, ...]
    parts: Mapping[str, frozenset[str]]
    cuts: Mapping[str, tuple[str, ...]]

    @classmethod
    def of(cls, learnt: Learnt, words: Mapping[str, int]) -> _Used:
        pieces, parts = _longer_pieces(learnt.backend), {}
        if learnt.model is not None:
            scores = sentencepiece_model.ordinary_pieces(learnt.model)
            pieces = [piece for piece in scores if len(piece) > 1]
            if isinstance(learnt.backend.model, tokenizers.models.BPE):
                parts = {piece: _merged_from(piece, scores) for piece in pieces}
        elif isinstance(learnt.backend.model, tokenizers.models.BPE):
            ranks = merge_ranks(json.loads(learnt.backend.to_str())["model"])
            parts = {piece: frozenset(merged_from(piece, ranks) - {piece}) for piece in pieces}
        return cls(learnt, words, tuple(pieces), parts, cut_words(learnt.backend, words))

    def __len__(self) -> int:
        return int(self.learnt.backend.get_vocab_size())

    @cached_property
    def uses(self) -> Mapping[str, int]:
        """How often each piece is used."""
        found: Counter[str] = Counter()
        for word, cut in self.cuts.items():
            for piece in cut:
                found[piece] += self.words[word]
        return found

    def rarest(self, below: int | None = None) -> list[str]:
        """Pieces that no other is merged from, used fewer than `below` times: the rarest and, of these, the last first.

        Any of them may go without another being lost.
        """
        needed = frozenset[str]().union(*(self.parts[piece] for piece in self.pieces if piece in self.parts))
        free = [piece for piece in reversed(self.pieces) if piece not in needed]
        return sorted((p for p in free if below is None or self.uses[p] < below), key=self.uses.__getitem__)

    def without(self, pieces: Sequence[str]) -> _Used:
        gone, learnt = frozenset(pieces), self.learnt.without(pieces)
        # Words that had none of them are cut as before: what was best among more is best among fewer.
        affected = [word for word, cut in self.cuts.items() if not gone.isdisjoint(cut)]
        left = tuple(piece for piece in self.pieces if piece not in gone)
        return replace(self, learnt=learnt, pieces=left, cuts={**self.cuts, **cut_words(learnt.backend, affected)})


def _longer_pieces(backend: tokenizers.Tokenizer) -> list[str]:
    """Pieces of more than one character, by id."""
    vocabulary = backend.get_vocab(with_added_tokens=True)
    added = {token.content for token in backend.get_added_tokens_decoder().values()}
    return [p for p in sorted(vocabulary, key=vocabulary.__getitem__) if p not in added and wordpiece.length(p) > 1]


def _merged_from(piece: str, scores: Mapping[str, float]) -> frozenset[str]:
    """The pieces on the way from a piece's characters to the piece.

    They are the same in whatever word it is made: there too, the best merge within it comes first.
    """
    symbols, made = list(piece), set[str]()
    while len(symbols) > 1:
        joined = [left + right for left, right in pairwise(symbols)]
        best = max((each for each in joined if each in scores), key=scores.__getitem__, default=None)
        if best is None:
            break
        place = joined.index(best)
        symbols[place : place + 2] = [best]
        made.add(best)
    return frozenset(made - {piece})


def _risen(used: _Used, min_count: int) -> _Used:
    """Without what is used too rarely. The bar rises by doubling: where a rare piece goes, its parts are used more."""
    bar = 1
    while bar < min_count:
        used = _settled(used, bar)
        bar *= 2
    return _settled(used, min_count)


def _settled(used: _Used, min_count: int) -> _Used:
    while gone := used.rarest(min_count):
        used = used.without(gone)
    return used


def _trimmed(used: _Used, size: int, min_count: int) -> _Used | None:
    """The most used `size` pieces; None where that leaves others too rarely used, or there are not so many."""
    while len(used) > size:
        smaller = (_settled(used.without(gone), min_count) for gone in _parts_of(used.rarest(), len(used) - size))
        fitting = next((each for each in smaller if len(each) >= size), None)
        if fitting is None:
            return None
        used = fitting
    return used if len(used) == size else None


def _parts_of(rarest: Sequence[str], excess: int) -> Iterator[Sequence[str]]:
    """What may be taken out at once: half of the excess, a quarter, ... one, another one, ..., the rarest first."""
    taken = -(-excess // 2)
    while taken > 1:
        yield rarest[:taken]
        taken //= 2
    yield from ([piece] for piece in rarest)
