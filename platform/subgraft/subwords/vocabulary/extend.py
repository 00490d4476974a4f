"""Extend a vocabulary with a task's subwords: old tokens keep their ids, other text is segmented as before.

New pieces join neighbouring old ones (see `pair_merges`), so a text is segmented as before except for the joins.

- BPE: new merges come after the old ones, which apply as before (continued BPE; Purason et al. 2025, *Teaching Old
  Tokenizers New Words*).
- Unigram: a new piece scores as its old segmentation plus a small step per boundary inside it. The best segmentation is
  then the best one by the old scores, with the fewest tokens. Another old segmentation wins only if it scored almost
  the same. An unknown token costs a fixed sum more than the rarest piece, so text that was unknown because its pieces
  are rare may be cut differently after new, rarer pieces are added.
- WordPiece segments greedily from the left, so a new piece may move the boundaries after it.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable, Sequence

from subgraft.base.errors import UserError
from subgraft.subwords.vocabulary.entry import CONTINUATION_MARK, SPACE_MARK, Mark
from subgraft.subwords.vocabulary.learning_errors import TooLargeError
from subgraft.subwords.vocabulary.pair_merges import Join, join_pieces
from subgraft.subwords.vocabulary.sentencepiece_model import SCORE_STEPS
from subgraft.subwords.vocabulary.tokenizer import Tokenizer
from subgraft.subwords.vocabulary.tokenizer_description import BYTE_PIECE
from subgraft.subwords.vocabulary.tokenizer_spec import Specification, keeping, with_pieces, with_scores
from subgraft.subwords.vocabulary.words import cut_words, word_counts

MIN_COUNT = 2  # a string that occurs once is not a subword


def extend(tokenizer: Tokenizer, lines: Iterable[str], added: int, min_count: int = MIN_COUNT) -> Tokenizer:
    """The vocabulary with exactly `added` new pieces after the old ones, each occurring at least `min_count` times.

    Deterministic in the vocabulary, lines and settings.

    Raises:
        TooLargeError: The text supports fewer pieces; the error has their number.
    """
    backend, specification = tokenizer.backend, tokenizer.specification
    kind = specification["model"]["type"]
    words = word_counts(backend, tokenizer.guard.checked(lines))
    cuts = cut_words(backend, words)
    known = frozenset(tokenizer.pieces)
    joined = join_pieces(words, cuts, _join(tokenizer), known, added, min_count, on_the_way=kind == "BPE")
    if len(joined.pieces) < added:
        raise _too_many(added, len(joined.pieces), min_count)
    whole = keeping(specification, range(len(tokenizer)))
    if kind == "Unigram":
        return tokenizer.with_specification(with_scores(whole, _scored(tokenizer, whole, joined.pieces)))
    return tokenizer.with_specification(with_pieces(whole, joined.pieces))


def _scored(tokenizer: Tokenizer, specification: Specification, pieces: Sequence[str]) -> list[tuple[str, float]]:
    """Each piece with the score of its old segmentation, plus one step for each boundary inside it."""
    scores = dict(specification["model"]["vocab"])
    old = cut_words(tokenizer.backend, pieces)
    return [(each, sum(scores[part] for part in old[each]) + (len(old[each]) - 1) / SCORE_STEPS) for each in pieces]


def _join(tokenizer: Tokenizer) -> Join:
    """Returns the function that joins two neighbours; it gives None for special tokens, byte pieces and words."""
    apart = {piece for piece in tokenizer.pieces if BYTE_PIECE.fullmatch(piece)}
    apart |= {tokenizer.pieces[i] for i in tokenizer.special_ids}
    if tokenizer.mark is Mark.WORDPIECE:
        return lambda left, right: (
            None if left in apart or right in apart else left + right.removeprefix(CONTINUATION_MARK)
        )
    if tokenizer.mark is Mark.BYTELEVEL:
        return lambda left, right: None if left in apart or right in apart else left + right

    def within_word(left: str, right: str) -> str | None:
        together = _kind(left[-1]) in (_kind(right[0]), None)
        return left + right if together and left not in apart and right not in apart else None

    return within_word


def _kind(character: str) -> str | None:
    """Letter, number or other: kinds that are never joined, as in SentencePiece. None for the mark, which joins all."""
    if character == SPACE_MARK:
        return None
    category = unicodedata.category(character)[0]
    return "L" if category in "LM" else "N" if category == "N" else "other"


def _too_many(asked: int, possible: int, min_count: int) -> UserError:
    error = TooLargeError(
        f"the text does not support {asked} new subwords that it has {min_count} times or more: {possible} is the most",
        hint=f"Ask for at most {possible}, or give more text.",
    )
    error.possible = possible
    return error
