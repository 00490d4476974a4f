"""How well a vocabulary covers a text: unknown tokens, byte tokens, and round trips of encoding and decoding."""

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
    """Counts of a text under one vocabulary; counts of two texts can be added.

    Attributes:
        sentences: Sentences of the text.
        tokens: All tokens.
        unknown: Unknown tokens.
        byte_tokens: Tokens that spell one byte of a character without a subword.
        with_unknown: Sentences with an unknown token.
        round_trip: Sentences that decode(encode(sentence)) leaves unchanged. A sentence may change without an unknown
            token, because vocabularies normalise text.
    """

    sentences: int = 0
    tokens: int = 0
    unknown: int = 0
    byte_tokens: int = 0
    with_unknown: int = 0
    round_trip: int = 0

    def __add__(self, other: Spelling) -> Spelling:
        return Spelling(*(getattr(self, field.name) + getattr(other, field.name) for field in fields(self)))

    @property
    def tokens_per_sentence(self) -> float:
        return self.tokens / max(1, self.sentences)

    @property
    def unknown_share(self) -> float:
        """Share of unknown tokens."""
        return self.unknown / max(1, self.tokens)

    @property
    def byte_share(self) -> float:
        """Share of byte tokens."""
        return self.byte_tokens / max(1, self.tokens)

    @property
    def with_unknown_share(self) -> float:
        """Share of sentences with an unknown token."""
        return self.with_unknown / max(1, self.sentences)

    @property
    def round_trip_share(self) -> float:
        """Share of sentences that a round trip leaves unchanged."""
        return self.round_trip / max(1, self.sentences)


def spelling(tokenizer: Tokenizer, lines: Iterable[str]) -> Spelling:
    """Counts of a text under a vocabulary; the text is streamed."""
    return sum((_count_chunk(tokenizer, chunk) for chunk in chunks(lines)), Spelling())


def _count_chunk(tokenizer: Tokenizer, lines: Sequence[str]) -> Spelling:
    encoded = tokenizer.encode_batch(lines)
    unknown = [_count_unknown(tokenizer, ids) for ids in encoded]
    byte_ids = byte_tokens(tokenizer)
    return Spelling(
        sentences=len(lines),
        tokens=sum(map(len, encoded)),
        unknown=sum(unknown),
        byte_tokens=sum(token in byte_ids for ids in encoded for token in ids) if byte_ids else 0,
        with_unknown=sum(map(bool, unknown)),
        round_trip=sum(tokenizer.decode(ids) == line for ids, line in zip(encoded, lines, strict=True)),
    )


def spells(tokenizer: Tokenizer, lines: Sequence[str]) -> list[bool]:
    """For each line, whether it has no unknown token."""
    return [not _count_unknown(tokenizer, ids) for ids in tokenizer.encode_batch(lines)]


def round_trip(tokenizer: Tokenizer, lines: Sequence[str]) -> list[str]:
    """decode(encode(line)) of each line: the best output that a model with this vocabulary can produce."""
    return [tokenizer.decode(ids) for ids in tokenizer.encode_batch(lines)]


def unknown_characters(tokenizer: Tokenizer, words: Mapping[str, int], limit: int = 20) -> tuple[str, ...]:
    """The most frequent characters that are unknown by themselves.

    Args:
        tokenizer: The vocabulary.
        words: Counts of the words of a text.
        limit: The maximum number of characters.
    """
    counts: Counter[str] = Counter()
    for word, times in words.items():
        for character in word:
            counts[character] += times
    ranked = sorted(counts, key=lambda character: (-counts[character], character))
    spellable = spells(tokenizer, ranked)
    return tuple(character for character, known in zip(ranked, spellable, strict=True) if not known)[:limit]


def counted(lines: Iterable[str], characters: Counter[str]) -> Iterator[str]:
    """The lines, whose characters are added to these counts as they are read."""
    for line in lines:
        characters.update(line)
        yield line


def remaining_unknown(tokenizer: Tokenizer, characters: Mapping[str, int]) -> str:
    """The text's characters that an extended vocabulary still lacks, in a sentence; empty if there are none."""
    unknown = " ".join(unknown_characters(tokenizer, characters))
    if not unknown:
        return ""
    return f"still unknown, the most frequent first: {unknown}; more new subwords or a lower minimum count add them"


def words_beyond_limit(tokenizer: Tokenizer, lines: Iterable[str]) -> str:
    """How many words are longer than a WordPiece reads, in a sentence; empty if there are none."""
    limit = tokenizer.specification["model"].get("max_input_chars_per_word")
    if limit is None:
        return ""
    with_long_words = [line for line in lines if max(map(len, line.split()), default=0) > limit]
    backend = tokenizer.backend
    too_long = sum(
        len(word) > limit
        for line in with_long_words
        for word, _ in backend.pre_tokenizer.pre_tokenize_str(backend.normalizer.normalize_str(line))
    )
    if not too_long:
        return ""
    return (
        f"{too_long:,} words of the text have more than {limit:,} characters, and are one unknown token each: write "
        "them with spaces, or use another kind of vocabulary"
    )


def byte_tokens(tokenizer: Tokenizer) -> frozenset[int]:
    """Ids that spell one byte of a character without a subword.

    In a byte-level vocabulary an ASCII byte is a character, so that those of other characters count alone.
    """
    lowest = 0x80 if tokenizer.mark is Mark.BYTELEVEL else 0
    return frozenset(token for byte, token in tokenizer.byte_ids.items() if byte >= lowest)


def chunks(lines: Iterable[str]) -> Iterator[list[str]]:
    """A text in lists of at most LINES_AT_A_TIME lines."""
    remaining = iter(lines)
    while chunk := list(islice(remaining, LINES_AT_A_TIME)):
        yield chunk


def _count_unknown(tokenizer: Tokenizer, ids: Sequence[int]) -> int:
    return ids.count(tokenizer.special["unk"]) if "unk" in tokenizer.special else 0
