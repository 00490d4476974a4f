"""Remove the tokens that a task's text never uses; the text is segmented as before.

Special tokens and bytes remain. Without bytes, single characters remain too, and pieces with a character that has no
piece of its own: otherwise some text could not be encoded. A BPE vocabulary also retains the intermediate pieces of
retained pieces, and loses all other merges. A merge that is never applied has no effect, so the text is segmented as
before (Cognetta et al. 2024, *An Analysis of BPE Vocabulary Trimming in Neural Machine Translation*, who also remove
rare pieces).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Set

from subgraft.subwords.vocabulary.entry import CONTINUATION_MARK, Mark, piece_length
from subgraft.subwords.vocabulary.learning_errors import empty_corpus
from subgraft.subwords.vocabulary.tokenizer import Tokenizer
from subgraft.subwords.vocabulary.tokenizer_spec import Specification, keeping, merge_ranks, merged_from
from subgraft.subwords.vocabulary.words import cut_words, piece_counts, word_counts


def trim(tokenizer: Tokenizer, lines: Iterable[str], min_count: int = 1) -> Tokenizer:
    """The vocabulary with only the tokens that occur at least `min_count` times in the text, renumbered without gaps.

    Text that used rarer tokens is segmented into the remaining ones. Raises UserError for an empty text.
    """
    specification = tokenizer.specification
    words = word_counts(tokenizer.backend, tokenizer.guard.checked(lines))
    if not words:
        raise empty_corpus()
    retained = _Retained(tokenizer, specification)
    cuts = cut_words(tokenizer.backend, words)
    while gone := retained.rare(piece_counts(words, cuts), min_count):
        # Pieces that the text does not use yet remain, to spell the text of removed pieces.
        fewer = retained.without(gone)
        cuts |= cut_words(fewer.backend, [word for word, cut in cuts.items() if not gone.isdisjoint(cut)])
    return retained.only(piece_counts(words, cuts).keys())


class _Retained:
    """A vocabulary from which pieces are being removed."""

    def __init__(self, tokenizer: Tokenizer, specification: Specification) -> None:
        self._tokenizer, self._specification = tokenizer, specification
        self._always = _always_retained(tokenizer)
        self._gone: Set[str] = frozenset()
        model = specification["model"]
        self._ranks = merge_ranks(model) if model["type"] == "BPE" else None

    def rare(self, uses: Mapping[str, int], min_count: int) -> frozenset[str]:
        """Pieces that are used too rarely and that no common piece is merged from."""
        common = [piece for piece, times in uses.items() if times >= min_count]
        needed = self._needed(common)
        return frozenset(piece for piece, times in uses.items() if 0 < times < min_count and piece not in needed)

    def without(self, pieces: Set[str]) -> Tokenizer:
        """Without these and all that went before."""
        self._gone |= pieces
        return self._over([piece for piece in self._tokenizer.pieces if piece not in self._gone])

    def only(self, pieces: Iterable[str]) -> Tokenizer:
        """These tokens and those that they need."""
        return self._over(self._needed(pieces))

    def _needed(self, pieces: Iterable[str]) -> Set[str]:
        wanted = set(pieces)
        if self._ranks is not None:
            for piece in wanted - self._always:
                wanted |= merged_from(piece, self._ranks.get)
        return wanted | self._always

    def _over(self, pieces: Collection[str]) -> Tokenizer:
        chosen = frozenset(pieces)
        ids = [
            i
            for i, piece in enumerate(self._tokenizer.pieces)
            if piece and (piece in chosen or i in self._tokenizer.special_ids)
        ]
        return self._tokenizer.with_specification(keeping(self._specification, ids))


def _always_retained(tokenizer: Tokenizer) -> frozenset[str]:
    """Special tokens, bytes, the bare mark and, without bytes, pieces that single characters cannot spell."""
    needed = {tokenizer.pieces[i] for i in (*tokenizer.special_ids, *tokenizer.byte_ids.values())}
    alone = set() if len(tokenizer.byte_ids) == 256 else set(_not_of_shorter(tokenizer))
    # With its mark, a character begins a word: "▁a" can be cut into "▁" and "a", and "a" in WordPiece cannot.
    return frozenset(needed | alone | ({tokenizer.mark.value} if tokenizer.mark is not Mark.WORDPIECE else set()))


def _not_of_shorter(tokenizer: Tokenizer) -> Iterator[str]:
    """Pieces of one character, and longer ones with a character that has no piece of its own."""
    pieces = frozenset(tokenizer.pieces)
    for piece in pieces:
        characters = list(piece)
        if tokenizer.mark is Mark.WORDPIECE:
            begins = len(piece) - piece_length(piece)
            later = (CONTINUATION_MARK + character for character in piece[begins + 1 :])
            characters = [piece[: begins + 1], *later]
        if len(characters) <= 1 or not pieces.issuperset(characters):
            yield piece
