"""Extend a vocabulary with a task's subwords: old tokens keep their ids, other text is segmented as before.

New pieces join neighbouring old ones (see `join_pieces`), so a text is segmented as before except for the joins.
Characters that the vocabulary lacks come first, and are then joined. If it writes them in bytes, they are at most half
of the new pieces where there are enough joins. Digits that the vocabulary separates are not joined.

- BPE: new merges come after the old ones, which apply as before (continued BPE; Purason et al. 2025, *Teaching Old
  Tokenizers New Words*).
- Unigram: a new piece scores as its old segmentation plus a small step per boundary inside it. The best segmentation is
  then the best one by the old scores, with the fewest tokens. Another old segmentation wins only if it scored almost
  the same. An unknown token costs a fixed sum more than the rarest piece, so text that was unknown because its pieces
  are rare may be segmented differently after new, rarer pieces are added.
  A new character scores as the rarest piece.
- WordPiece segments greedily from the left, so a new piece may move the boundaries after it.
"""

from __future__ import annotations

import heapq
import json
import unicodedata
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import pairwise

import tokenizers

from subgraft.base.errors import UserError
from subgraft.subwords.vocabulary.entry import CONTINUATION_MARK, SPACE_MARK, Mark
from subgraft.subwords.vocabulary.learning_errors import TooLargeError
from subgraft.subwords.vocabulary.normalization import splits_digits
from subgraft.subwords.vocabulary.sentencepiece_model import SCORE_STEPS
from subgraft.subwords.vocabulary.symbols import add_words, require_symbols
from subgraft.subwords.vocabulary.tokenizer import Tokenizer
from subgraft.subwords.vocabulary.tokenizer_description import BYTE_PIECE
from subgraft.subwords.vocabulary.tokenizer_spec import (
    Specification,
    select_tokens,
    with_pieces,
    with_scores,
    with_special_tokens,
)
from subgraft.subwords.vocabulary.words import segment_words, word_counts

MIN_COUNT = 2  # a string that occurs only once is not worth a subword


def extend(
    tokenizer: Tokenizer, lines: Iterable[str], added: int, min_count: int = MIN_COUNT, words: Sequence[str] = ()
) -> Tokenizer:
    """The vocabulary with exactly `added` new pieces after the old ones, each occurring at least `min_count` times.

    Deterministic in the vocabulary, lines and settings.

    Args:
        words: User-defined symbols, which come first, however often they occur. Pieces that exist become symbols with
            their ids.

    Raises:
        TooLargeError: The text supports fewer pieces; the error has their number.
    """
    with_symbols = tokenizer
    if words:
        special = [tokenizer.pieces[token] for token in tokenizer.special_ids]
        new = [word for word in require_symbols(words, special) if word not in tokenizer.symbols.values()]
        renumbered = select_tokens(tokenizer.specification, range(len(tokenizer)))
        backend: tokenizers.Tokenizer = tokenizers.Tokenizer.from_str(json.dumps(renumbered))
        add_words(backend, new)
        with_symbols = tokenizer.with_specification(json.loads(backend.to_str()))
    symbols = len(with_symbols) - len(tokenizer)
    if symbols > added:
        what = f"there are {symbols:,} new words, and room for {added:,} pieces"
        raise UserError(what, hint=f"Add at least {symbols:,} pieces.")
    if symbols == added:
        return with_symbols
    try:
        return Extender.of(with_symbols, lines).extend(added - symbols, min_count)
    except TooLargeError as error:
        raise _too_many_error(added, symbols + error.possible, min_count) from None


@dataclass(frozen=True)
class Extender:
    """Extends a vocabulary by subwords of a text, whose words are counted once for any number of extensions."""

    tokenizer: Tokenizer
    words: Mapping[str, int]

    @classmethod
    def of(cls, tokenizer: Tokenizer, lines: Iterable[str]) -> Extender:
        return cls(tokenizer, word_counts(tokenizer.backend, tokenizer.guard.checked(lines)))

    def extend(self, added: int, min_count: int = MIN_COUNT) -> Tokenizer:
        """As the function; raises TooLargeError if the text supports fewer pieces."""
        characters = _new_characters(self.tokenizer, self.words, min_count)
        if self.tokenizer.byte_ids and len(characters) > added // 2:
            with suppress(TooLargeError):
                return _extend(self.tokenizer, self.words, characters[: added // 2], added, min_count)
        return _extend(self.tokenizer, self.words, characters[:added], added, min_count)

    def extend_at_most(self, added: int, min_count: int = MIN_COUNT) -> Tokenizer:
        """With `added` new pieces, or with as many as the text supports: perhaps the vocabulary as it is."""
        try:
            return self.extend(added, min_count)
        except TooLargeError as error:
            return self.extend(error.possible, min_count) if error.possible else self.tokenizer


def lengthens_no_text(tokenizer: Tokenizer, words: Sequence[str] = ()) -> bool:
    """Whether no text that the vocabulary spells has more tokens after an extension.

    In BPE all old merges apply before the new ones, which only join. Symbols in a text divide what is around them.
    """
    return tokenizer.specification["model"]["type"] == "BPE" and not words


def _extend(
    tokenizer: Tokenizer, words: Mapping[str, int], characters: Sequence[str], added: int, min_count: int
) -> Tokenizer:
    """The vocabulary with these characters, and joins up to `added` pieces. Raises TooLargeError for too few joins."""
    complete = tokenizer
    if characters:
        renumbered = select_tokens(tokenizer.specification, range(len(tokenizer)))
        if renumbered["model"]["type"] == "Unigram":
            rarest = min(score for _, score in renumbered["model"]["vocab"])
            renumbered = with_scores(renumbered, [(piece, rarest) for piece in characters])
        else:
            renumbered = with_pieces(renumbered, characters)
        complete = tokenizer.with_specification(renumbered)
    remaining = added - len(characters)
    if not remaining:
        return complete
    specification = complete.specification
    kind = specification["model"]["type"]
    segmentations, known = segment_words(complete.backend, words), frozenset(complete.pieces)
    joined = join_pieces(
        words, segmentations, _join(complete), known, remaining, min_count, keep_intermediate=kind == "BPE"
    )
    if len(joined.pieces) < remaining:
        raise _too_many_error(added, len(characters) + len(joined.pieces), min_count)
    renumbered = select_tokens(specification, range(len(complete)))
    if kind == "Unigram":
        return complete.with_specification(with_scores(renumbered, _score_pieces(complete, renumbered, joined.pieces)))
    return complete.with_specification(with_pieces(renumbered, joined.pieces))


def _new_characters(tokenizer: Tokenizer, words: Mapping[str, int], min_count: int) -> list[str]:
    """Pieces of the single characters that the vocabulary lacks, the most frequent first.

    Without them they would remain unknown tokens or bytes, which are never joined. Byte-level vocabularies lack none.
    """
    if tokenizer.mark is Mark.BYTELEVEL:
        return []
    known = frozenset(tokenizer.pieces)
    lacking = {tokenizer.pieces[i] for i in (*tokenizer.byte_ids.values(), *tokenizer.special_ids)}
    counts: Counter[str] = Counter()
    for word, pieces in segment_words(tokenizer.backend, words).items():
        if lacking.isdisjoint(pieces):
            continue
        for position, character in enumerate(word):
            inside = position > 0 and tokenizer.mark is Mark.WORDPIECE
            piece = f"{CONTINUATION_MARK}{character}" if inside else character
            if piece not in known:
                counts[piece] += words[word]
    return sorted((piece for piece, count in counts.items() if count >= min_count), key=lambda p: (-counts[p], p))


def with_codes(tokenizer: Tokenizer, codes: Sequence[str]) -> Tokenizer:
    """The vocabulary with additional language codes after the old tokens, which keep their ids and segmentation."""
    renumbered = select_tokens(tokenizer.specification, range(len(tokenizer)))
    return tokenizer.with_specification(with_special_tokens(renumbered, codes))


def _score_pieces(tokenizer: Tokenizer, specification: Specification, pieces: Sequence[str]) -> list[tuple[str, float]]:
    """Each piece with the score of its old segmentation, plus one step for each boundary inside it."""
    scores = dict(specification["model"]["vocab"])
    segmented = segment_words(tokenizer.backend, pieces)
    return [
        (piece, sum(scores[part] for part in segmented[piece]) + (len(segmented[piece]) - 1) / SCORE_STEPS)
        for piece in pieces
    ]


def _join(tokenizer: Tokenizer) -> Join:
    """The function that joins two neighbouring pieces; it returns None for special tokens, byte pieces and words."""
    unjoinable = {piece for piece in tokenizer.pieces if BYTE_PIECE.fullmatch(piece)}
    unjoinable |= {tokenizer.pieces[i] for i in (*tokenizer.special_ids, *tokenizer.symbols)}
    if tokenizer.mark is Mark.WORDPIECE:
        return lambda left, right: (
            None if left in unjoinable or right in unjoinable else left + right.removeprefix(CONTINUATION_MARK)
        )
    if tokenizer.mark is Mark.BYTELEVEL:
        return lambda left, right: None if left in unjoinable or right in unjoinable else left + right
    if splits_digits(tokenizer):
        unjoinable |= {piece for piece in tokenizer.pieces if any(map(str.isdecimal, piece))}

    def within_word(left: str, right: str) -> str | None:
        same_class = _character_class(left[-1]) in (_character_class(right[0]), None)
        return left + right if same_class and left not in unjoinable and right not in unjoinable else None

    return within_word


def _character_class(character: str) -> str | None:
    """Letter, number or other: classes that no piece mixes, as in SentencePiece. None for the mark, which fits all."""
    if character == SPACE_MARK:
        return None
    category = unicodedata.category(character)[0]
    return "L" if category in "LM" else "N" if category == "N" else "other"


def _too_many_error(requested: int, possible: int, min_count: int) -> UserError:
    what = f"the text does not support {requested} new subwords that occur at least {min_count} times, only {possible}"
    return TooLargeError.of(what, possible, f"Ask for at most {possible}, or give more text.")


# Joins two neighbouring pieces; returns None if they must not be joined.
Join = Callable[[str, str], str | None]


@dataclass(frozen=True)
class Joined:
    """New pieces in merge order, and their final counts in the text."""

    pieces: tuple[str, ...]
    uses: Mapping[str, int]


def join_pieces(
    words: Mapping[str, int],
    segmentations: Mapping[str, tuple[str, ...]],
    join: Join,
    known: Collection[str],
    max_pieces: int,
    min_count: int,
    *,
    keep_intermediate: bool,
) -> Joined:
    """At most `max_pieces` new pieces; each was the most frequent join and occurred at least `min_count` times.

    Byte-pair encoding that starts from a vocabulary's segmentation instead of single characters: as in Sennrich et al.
    (2016, *Neural Machine Translation of Rare Words with Subword Units*, algorithm 1), the most frequent pair is joined
    repeatedly and becomes a new piece.

    Args:
        words: The count of each word of a text.
        segmentations: The pieces of each word.
        join: Joins two neighbouring pieces.
        known: Existing pieces, which are never the result of a join.
        max_pieces: The maximum number of new pieces.
        min_count: The minimum number of occurrences of a new piece.
        keep_intermediate: Retain a piece whose final count is too low because longer pieces replaced it, as BPE
            requires; otherwise another piece takes its place.
    """
    text = _SegmentedText(words, segmentations, join, frozenset(known))
    pieces: list[str] = []
    for piece in text.joins(min_count):
        pieces.append(piece)
        if len(pieces) >= max_pieces and (keep_intermediate or len(text.used(pieces, min_count)) >= max_pieces):
            break
    selected = (pieces if keep_intermediate else text.used(pieces, min_count))[:max_pieces]
    return Joined(tuple(selected), {piece: text.uses[piece] for piece in selected})


class _SegmentedText:
    """The words of a text, segmented into pieces that are joined step by step, and the counts of all possible joins."""

    def __init__(
        self, words: Mapping[str, int], segmentations: Mapping[str, tuple[str, ...]], join: Join, known: Collection[str]
    ) -> None:
        self._join, self._known = join, known
        self._words = [
            (list(split), times) for word, times in sorted(words.items()) if len(split := segmentations[word]) > 1
        ]
        self.uses: Counter[str] = Counter()
        self._counts: Counter[str] = Counter()
        # Words that have had a join, whether or not a later one has taken its pieces.
        self._words_with: defaultdict[str, set[int]] = defaultdict(set)
        for index, (pieces, times) in enumerate(self._words):
            for piece in pieces:
                self.uses[piece] += times
            for left, right in pairwise(pieces):
                self._count(left, right, times, index)

    def joins(self, min_count: int) -> Iterator[str]:
        """New pieces, each joined throughout the text; ties are broken by spelling."""
        heap = [(-times, piece) for piece, times in self._counts.items()]
        heapq.heapify(heap)
        done: set[str] = set()
        while heap:
            times, piece = heapq.heappop(heap)
            count = self._counts[piece]
            if -times != count or count < min_count or piece in done:
                continue  # an outdated entry; changed counts have been pushed again
            done.add(piece)
            for changed in self._join_all(piece):
                if changed not in done and self._counts[changed] >= min_count:
                    heapq.heappush(heap, (-self._counts[changed], changed))
            yield piece

    def used(self, pieces: Sequence[str], min_count: int) -> list[str]:
        """The pieces with at least `min_count` occurrences after the joins so far."""
        return [piece for piece in pieces if self.uses[piece] >= min_count]

    def _join_all(self, piece: str) -> set[str]:
        """Forms a piece wherever its parts are neighbours; returns the joins whose counts have changed."""
        changed: set[str | None] = set()
        for index in sorted(self._words_with.pop(piece)):
            pieces, times = self._words[index]
            position = 0
            while position < len(pieces) - 1:
                left, right = pieces[position : position + 2]
                if self._join(left, right) == piece:
                    changed.add(self._count(left, right, -times, index))
                    for neighbour in pieces[position - 1 : position] if position else ():
                        changed.add(self._count(neighbour, left, -times, index))
                        changed.add(self._count(neighbour, piece, times, index))
                    for neighbour in pieces[position + 2 : position + 3]:
                        changed.add(self._count(right, neighbour, -times, index))
                        changed.add(self._count(piece, neighbour, times, index))
                    self.uses[left] -= times
                    self.uses[right] -= times
                    self.uses[piece] += times
                    pieces[position : position + 2] = [piece]
                position += 1
        return {joined for joined in changed if joined is not None}

    def _count(self, left: str, right: str, times: int, index: int) -> str | None:
        """Counts neighbours in a word, or no longer if `times` is negative; returns their join, if there is one."""
        joined = self._join(left, right)
        if joined is None or joined in self._known:
            return None
        self._counts[joined] += times
        if times > 0:
            self._words_with[joined].add(index)
        return joined
