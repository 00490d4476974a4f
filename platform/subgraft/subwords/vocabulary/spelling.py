"""The part of a text that a vocabulary cannot spell, and what a text becomes by encoding and decoding it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from itertools import islice

from subgraft.subwords.vocabulary.entry import Mark
from subgraft.subwords.vocabulary.tokenizer import Tokenizer

LINES_AT_A_TIME = 2000


@dataclass(frozen=True)
class Spelling:
    """A text under one vocabulary, in counts; the spellings of two texts add up to that of both.

    unknown: tokens that stand for what the vocabulary cannot spell.  byte_tokens: those that spell one byte of a
    character that no subword has.  with_unknown: sentences with an unknown token.  given_back: sentences that come back
    from decode(encode(sentence)) as they were. One may change without an unknown token: vocabularies normalise text.
    """

    sentences: int = 0
    tokens: int = 0
    unknown: int = 0
    byte_tokens: int = 0
    with_unknown: int = 0
    round_trip: int = 0

    def __add__(self, other: Spelling) -> Spelling:
        return Spelling(*(getattr(self, each.name) + getattr(other, each.name) for each in fields(self)))

    @property
    def tokens_per_sentence(self) -> float:
        return self.tokens / max(1, self.sentences)

    @property
    def unknown_share(self) -> float:
        """Of the tokens."""
        return self.unknown / max(1, self.tokens)

    @property
    def byte_share(self) -> float:
        """Of the tokens."""
        return self.byte_tokens / max(1, self.tokens)

    @property
    def with_unknown_share(self) -> float:
        """Of the sentences."""
        return self.with_unknown / max(1, self.sentences)

    @property
    def round_trip_share(self) -> float:
        """Of the sentences."""
        return self.round_trip / max(1, self.sentences)


def spelling(tokenizer: Tokenizer, lines: Iterable[str]) -> Spelling:
    """How a vocabulary spells a text, which is read once and never held."""
    return sum((_of_chunk(tokenizer, chunk) for chunk in chunks(lines)), Spelling())


def _of_chunk(tokenizer: Tokenizer, lines: Sequence[str]) -> Spelling:
    encoded = tokenizer.encode_batch(lines)
    unknown = [_count_unknown(tokenizer, ids) for ids in encoded]
    of_bytes = byte_tokens(tokenizer)
    return Spelling(
        sentences=len(lines),
        tokens=sum(map(len, encoded)),
        unknown=sum(unknown),
        byte_tokens=sum(token in of_bytes for ids in encoded for token in ids) if of_bytes else 0,
        with_unknown=sum(map(bool, unknown)),
        round_trip=sum(tokenizer.decode(ids) == line for ids, line in zip(encoded, lines, strict=True)),
    )


def spells(tokenizer: Tokenizer, lines: Sequence[str]) -> list[bool]:
    """Of each line, whether it has no unknown token."""
    return [not _count_unknown(tokenizer, ids) for ids in tokenizer.encode_batch(lines)]


def round_trip(tokenizer: Tokenizer, lines: Sequence[str]) -> list[str]:
    """decode(encode(line)) of each line: the most that a model with this vocabulary can write."""
    return [tokenizer.decode(ids) for ids in tokenizer.encode_batch(lines)]


def unspelled_characters(tokenizer: Tokenizer, words: Mapping[str, int], most: int = 20) -> tuple[str, ...]:
    """The characters that are unknown when they stand alone, of words by how often they occur; frequent ones first."""
    counts: Counter[str] = Counter()
    for word, times in words.items():
        for character in word:
            counts[character] += times
    ranked = sorted(counts, key=lambda character: (-counts[character], character))
    spelled = spells(tokenizer, ranked)
    return tuple(character for character, known in zip(ranked, spelled, strict=True) if not known)[:most]


def byte_tokens(tokenizer: Tokenizer) -> frozenset[int]:
    """Ids that byte fallback spells with. A byte-level vocabulary has none: its bytes are characters like others."""
    return frozenset() if tokenizer.mark is Mark.BYTELEVEL else frozenset(tokenizer.byte_ids.values())


def chunks(lines: Iterable[str]) -> Iterator[list[str]]:
    """A text in lists of so many lines as a tokenizer reads at a time."""
    remaining = iter(lines)
    while chunk := list(islice(remaining, LINES_AT_A_TIME)):
        yield chunk


def _count_unknown(tokenizer: Tokenizer, ids: Sequence[int]) -> int:
    return ids.count(tokenizer.special["unk"]) if "unk" in tokenizer.special else 0
