"""Extend a vocabulary with a task's subwords: old tokens keep their ids, other text is segmented as before.

New pieces join neighbouring old ones (see `join_pieces`), so a text is segmented as before except for the joins. Of a
script that the vocabulary lacks, single letters come first, which are then joined.

- BPE: new merges come after the old ones, which apply as before (continued BPE; Purason et al. 2025, *Teaching Old
  Tokenizers New Words*).
- Unigram: a new piece scores as its old segmentation plus a small step per boundary inside it. The best segmentation is
  then the best one by the old scores, with the fewest tokens. Another old segmentation wins only if it scored almost
  the same. An unknown token costs a fixed sum more than the rarest piece, so text that was unknown because its pieces
  are rare may be cut differently after new, rarer pieces are added.
  A new letter scores as the rarest piece.
- WordPiece segments greedily from the left, so a new piece may move the boundaries after it.
"""

from __future__ import annotations

import heapq
import unicodedata
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, pairwise

from subgraft.base.errors import UserError
from subgraft.subwords.vocabulary.entry import CONTINUATION_MARK, SPACE_MARK, Mark
from subgraft.subwords.vocabulary.learning_errors import TooLargeError
from subgraft.subwords.vocabulary.sentencepiece_model import SCORE_STEPS
from subgraft.subwords.vocabulary.tokenizer import Tokenizer
from subgraft.subwords.vocabulary.tokenizer_description import BYTE_PIECE
from subgraft.subwords.vocabulary.tokenizer_spec import (
    Specification,
    keeping,
    with_pieces,
    with_scores,
    with_special_tokens,
)
from subgraft.subwords.vocabulary.words import cut_words, word_counts

MIN_COUNT = 2  # a string that occurs once is not a subword
_ALPHABET = 3  # fewer letters of a script are signs: µ, ª, ℃


def extend(tokenizer: Tokenizer, lines: Iterable[str], added: int, min_count: int = MIN_COUNT) -> Tokenizer:
    """The vocabulary with exactly `added` new pieces after the old ones, each occurring at least `min_count` times.

    Deterministic in the vocabulary, lines and settings.

    Raises:
        TooLargeError: The text supports fewer pieces; the error has their number.
    """
    words = word_counts(tokenizer.backend, tokenizer.guard.checked(lines))
    letters = _new_letters(tokenizer, words, min_count)[:added]
    spelling = _with_letters(tokenizer, letters) if letters else tokenizer
    wanted = added - len(letters)
    if not wanted:
        return spelling
    specification = spelling.specification
    kind = specification["model"]["type"]
    cuts, known = cut_words(spelling.backend, words), frozenset(spelling.pieces)
    joined = join_pieces(words, cuts, _join(spelling), known, wanted, min_count, on_the_way=kind == "BPE")
    if len(joined.pieces) < wanted:
        raise _too_many(added, len(letters) + len(joined.pieces), min_count)
    whole = keeping(specification, range(len(spelling)))
    if kind == "Unigram":
        return spelling.with_specification(with_scores(whole, _scored(spelling, whole, joined.pieces)))
    return spelling.with_specification(with_pieces(whole, joined.pieces))


def _new_letters(tokenizer: Tokenizer, words: Mapping[str, int], min_count: int) -> list[str]:
    """Pieces of single letters of scripts that the vocabulary has none of, the most frequent first.

    A vocabulary of bytes has all scripts; in others unknown tokens or bytes, which are never joined, would remain.
    """
    if tokenizer.mark is Mark.BYTELEVEL:
        return []
    known = set(map(_script, chain.from_iterable(tokenizer.pieces[i] for i in tokenizer.ordinary_ids.tolist())))
    letters = {each for each in chain.from_iterable(words) if _script(each) not in known}
    scripts = {script for script, count in Counter(map(_script, letters)).items() if script and count >= _ALPHABET}
    counts: Counter[str] = Counter()
    for word, times in words.items():
        for at, character in enumerate(word):
            if character in letters and _script(character) in scripts:
                inside = at > 0 and tokenizer.mark is Mark.WORDPIECE
                counts[f"{CONTINUATION_MARK}{character}" if inside else character] += times
    return sorted((piece for piece, count in counts.items() if count >= min_count), key=lambda p: (-counts[p], p))


def _script(character: str) -> str | None:
    """The script of a letter or a vowel sign, as Unicode's names begin: CYRILLIC, HANGUL, CJK; None for others."""
    if unicodedata.category(character)[0] not in "LM":
        return None
    return unicodedata.name(character, "").partition(" ")[0] or None


def _with_letters(tokenizer: Tokenizer, letters: Sequence[str]) -> Tokenizer:
    whole = keeping(tokenizer.specification, range(len(tokenizer)))
    if whole["model"]["type"] != "Unigram":
        return tokenizer.with_specification(with_pieces(whole, letters))
    rarest = min(score for _, score in whole["model"]["vocab"])
    return tokenizer.with_specification(with_scores(whole, [(each, rarest) for each in letters]))


def with_codes(tokenizer: Tokenizer, codes: Sequence[str]) -> Tokenizer:
    """The vocabulary with further language codes after the old tokens, which keep their ids and cut text as before."""
    whole = keeping(tokenizer.specification, range(len(tokenizer)))
    return tokenizer.with_specification(with_special_tokens(whole, codes))


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


# The result of joining two neighbours; None for those that must not be joined.
Join = Callable[[str, str], str | None]


@dataclass(frozen=True)
class Joined:
    """New pieces in merge order, and their final counts in the text."""

    pieces: tuple[str, ...]
    uses: Mapping[str, int]


def join_pieces(
    words: Mapping[str, int],
    cuts: Mapping[str, tuple[str, ...]],
    join: Join,
    known: Collection[str],
    wanted: int,
    min_count: int,
    *,
    on_the_way: bool,
) -> Joined:
    """At most `wanted` new pieces; each was the most frequent join and occurred at least `min_count` times.

    Byte-pair encoding that starts from a vocabulary's segmentation instead of single characters: as in Sennrich et al.
    (2016, *Neural Machine Translation of Rare Words with Subword Units*, algorithm 1), the most frequent pair is joined
    repeatedly and becomes a new piece.

    Args:
        words, cuts: The count and the pieces of each word of a text.
        known: Existing pieces, which are never the result of a join.
        on_the_way: Retain a piece whose final count is too low because longer pieces replaced it, as BPE requires;
            otherwise another piece takes its place.
    """
    text = _Text(words, cuts, join, frozenset(known))
    pieces: list[str] = []
    for piece in text.joins(min_count):
        pieces.append(piece)
        if len(pieces) >= wanted and (on_the_way or len(text.used(pieces, min_count)) >= wanted):
            break
    selected = (pieces if on_the_way else text.used(pieces, min_count))[:wanted]
    return Joined(tuple(selected), {piece: text.uses[piece] for piece in selected})


class _Text:
    """A text's words as pieces that are being joined, and the counts of all possible joins."""

    def __init__(
        self, words: Mapping[str, int], cuts: Mapping[str, tuple[str, ...]], join: Join, known: Collection[str]
    ) -> None:
        self._join, self._known = join, known
        self._words = [(list(cuts[word]), times) for word, times in sorted(words.items()) if len(cuts[word]) > 1]
        self.uses: Counter[str] = Counter()
        self._counts: Counter[str] = Counter()
        self._places: defaultdict[str, set[int]] = defaultdict(set)
        for at in range(len(self._words)):
            self._count(at, 1)

    def joins(self, min_count: int) -> Iterator[str]:
        """New pieces, each joined throughout the text; ties are broken by spelling."""
        heap = [(-times, piece) for piece, times in self._counts.items()]
        heapq.heapify(heap)
        done: set[str] = set()
        while heap:
            times, piece = heapq.heappop(heap)
            now = self._counts[piece]
            if -times != now or now < min_count or piece in done:
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
        """Joins a piece wherever its parts meet; returns the joins whose counts have changed."""
        changed: set[str] = set()
        for at in sorted(self._places[piece]):
            pieces, _ = self._words[at]
            changed |= self._count(at, -1)
            place = 0
            while place < len(pieces) - 1:
                if self._join(pieces[place], pieces[place + 1]) == piece:
                    pieces[place : place + 2] = [piece]
                place += 1
            changed |= self._count(at, 1)
        return changed

    def _count(self, at: int, sign: int) -> set[str]:
        """Adds a word to the counts (sign 1) or subtracts it (-1); returns the joins that are possible in it."""
        pieces, times = self._words[at]
        for piece in pieces:
            self.uses[piece] += sign * times
        merged = {made for left, right in pairwise(pieces) if (made := self._made(left, right)) is not None}
        for left, right in pairwise(pieces):
            made = self._made(left, right)
            if made is not None:
                self._counts[made] += sign * times
        for made in merged:
            (self._places[made].add if sign > 0 else self._places[made].discard)(at)
        return merged

    def _made(self, left: str, right: str) -> str | None:
        made = self._join(left, right)
        return None if made in self._known else made
