"""Remove the tokens that a task's text never uses; the text is segmented as before.

Special tokens, user-defined symbols and bytes remain. Without bytes, single characters remain too, and pieces with a
character that has no piece of its own: otherwise some text could not be encoded. A BPE vocabulary also retains the
intermediate pieces of retained pieces, and loses all other merges. A merge that is never applied has no effect, so the
text is segmented as before (Cognetta et al. 2024, *An Analysis of BPE Vocabulary Trimming in Neural Machine
Translation*, who also remove rare pieces).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Set

from subgraft.subwords.vocabulary.entry import CONTINUATION_MARK, Mark, piece_length
from subgraft.subwords.vocabulary.learning_errors import empty_corpus
from subgraft.subwords.vocabulary.tokenizer import Tokenizer
from subgraft.subwords.vocabulary.tokenizer_spec import Specification, intermediate_pieces, merge_ranks, select_tokens
from subgraft.subwords.vocabulary.words import piece_counts, segment_words, word_counts


def trim(tokenizer: Tokenizer, lines: Iterable[str], min_count: int = 1) -> Tokenizer:
    """The vocabulary with only the tokens that occur at least `min_count` times in the text, renumbered without gaps.

    Text that used rarer tokens is segmented into the remaining ones. Raises UserError for an empty text.
    """
    specification = tokenizer.specification
    words = word_counts(tokenizer.backend, tokenizer.guard.checked(lines))
    if not words:
        raise empty_corpus()
    trimmer = _Trimmer(tokenizer, specification)
    segmentations = segment_words(tokenizer.backend, words)
    while rare := trimmer.rare(piece_counts(words, segmentations), min_count):
        # Pieces that the text does not use remain for now, because the text of removed pieces may need them.
        reduced = trimmer.without(rare)
        affected = [word for word, pieces in segmentations.items() if not rare.isdisjoint(pieces)]
        segmentations |= segment_words(reduced.backend, affected)
    return trimmer.restrict_to(piece_counts(words, segmentations).keys())


def prune(tokenizer: Tokenizer, lines: Iterable[str], count: int) -> Tokenizer:
    """The vocabulary without at most `count` tokens that the text never uses and that no other token is merged from.

    The last ones go first: in BPE they were learnt last, so that what remains is merged from what remains (leaves;
    Purason et al. 2025, *Teaching Old Tokenizers New Words*). Raises UserError for an empty text.
    """
    words = word_counts(tokenizer.backend, tokenizer.guard.checked(lines))
    if not words:
        raise empty_corpus()
    return _Trimmer(tokenizer, tokenizer.specification).without_unused(
        piece_counts(words, segment_words(tokenizer.backend, words)).keys(), count
    )


class _Trimmer:
    """A vocabulary from which pieces are being removed."""

    def __init__(self, tokenizer: Tokenizer, specification: Specification) -> None:
        self._tokenizer, self._specification = tokenizer, specification
        self._always = _always_retained(tokenizer)
        self._removed: Set[str] = frozenset()
        model = specification["model"]
        self._ranks = merge_ranks(model) if model["type"] == "BPE" else None

    def rare(self, uses: Mapping[str, int], min_count: int) -> frozenset[str]:
        """Pieces that are used too rarely and that no common piece is merged from."""
        common = [piece for piece, times in uses.items() if times >= min_count]
        required = self._required(common)
        return frozenset(piece for piece, times in uses.items() if 0 < times < min_count and piece not in required)

    def without(self, pieces: Set[str]) -> Tokenizer:
        """The vocabulary without these pieces and all that were removed before."""
        self._removed |= pieces
        return self._select([piece for piece in self._tokenizer.pieces if piece not in self._removed])

    def without_unused(self, used: Iterable[str], count: int) -> Tokenizer:
        """The vocabulary without the last `count` tokens that these pieces do not require."""
        required = self._required(used)
        unused = [piece for piece in reversed(self._tokenizer.pieces) if piece and piece not in required]
        return self.without(frozenset(unused[:count]))

    def restrict_to(self, pieces: Iterable[str]) -> Tokenizer:
        """The vocabulary of these tokens and the pieces that they require."""
        return self._select(self._required(pieces))

    def _required(self, pieces: Iterable[str]) -> Set[str]:
        required = set(pieces)
        if self._ranks is not None:
            for piece in required - self._always:
                required |= intermediate_pieces(piece, self._ranks.get)
        return required | self._always

    def _select(self, pieces: Collection[str]) -> Tokenizer:
        selected = frozenset(pieces)
        ids = [
            i
            for i, piece in enumerate(self._tokenizer.pieces)
            if piece and (piece in selected or i in self._tokenizer.special_ids or i in self._tokenizer.symbols)
        ]
        return self._tokenizer.with_specification(select_tokens(self._specification, ids))


def _always_retained(tokenizer: Tokenizer) -> frozenset[str]:
    """Added tokens, bytes, the bare mark and, without bytes, pieces that single characters cannot spell."""
    special = {tokenizer.pieces[i] for i in (*tokenizer.special_ids, *tokenizer.symbols, *tokenizer.byte_ids.values())}
    indivisible = set() if len(tokenizer.byte_ids) == 256 else set(_indivisible_pieces(tokenizer))
    # The bare mark is needed to spell a character at the beginning of a word: "▁a" as "▁" and "a". WordPiece has none.
    return frozenset(
        special | indivisible | ({tokenizer.mark.value} if tokenizer.mark is not Mark.WORDPIECE else set())
    )


def _indivisible_pieces(tokenizer: Tokenizer) -> Iterator[str]:
    """Pieces of one character, and longer ones with a character that has no piece of its own."""
    pieces = frozenset(tokenizer.pieces)
    for piece in pieces:
        characters = list(piece)
        if tokenizer.mark is Mark.WORDPIECE:
            mark_length = len(piece) - piece_length(piece)
            continuations = (CONTINUATION_MARK + character for character in piece[mark_length + 1 :])
            characters = [piece[: mark_length + 1], *continuations]
        if len(characters) <= 1 or not pieces.issuperset(characters):
            yield piece
