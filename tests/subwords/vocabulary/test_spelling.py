"""What a vocabulary cannot spell is counted, and is what a text lacks that went through it."""

from __future__ import annotations

from collections import Counter

import pytest

from subgraft.subwords.vocabulary import spelling as module
from subgraft.subwords.vocabulary.learn import learn
from subgraft.subwords.vocabulary.spelling import (
    Spelling,
    byte_tokens,
    round_trip,
    spelling,
    spells,
    unknown_characters,
)
from toys import german
from vocabularies import byte_level, unigram, wordpiece

SMALL = unigram(["▁a", "▁b", "c", "▁"])
WITH_BYTES = learn(german(), kind="unigram", size=400, character_coverage=1.0, byte_fallback=True)
TEXT = ["a bc", "a (c", "", "b xyz c a"]


def test_unknown_tokens_and_the_sentences_that_have_one() -> None:
    result = spelling(SMALL, iter(TEXT))
    ids = [SMALL.encode(line) for line in TEXT]
    assert result.sentences == 4
    assert result.tokens == sum(map(len, ids))
    assert result.unknown == sum(line.count(3) for line in ids) > 0
    assert result.with_unknown == 2
    assert result.round_trip == 2
    assert result.byte_tokens == 0
    assert result.unknown_share == result.unknown / result.tokens
    assert (result.with_unknown_share, result.round_trip_share) == (0.5, 0.5)
    assert spells(SMALL, TEXT) == [True, False, True, False]


def test_what_cannot_be_spelled_is_gone_after_decoding() -> None:
    assert round_trip(SMALL, TEXT)[:2] == ["a bc", "a c"]


def test_a_text_in_parts_counts_as_the_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = spelling(SMALL, TEXT)
    assert spelling(SMALL, TEXT[:1]) + spelling(SMALL, TEXT[1:]) == whole
    monkeypatch.setattr(module, "LINES_AT_A_TIME", 3)
    assert spelling(SMALL, TEXT) == whole


def test_bytes_spell_what_subwords_do_not() -> None:
    line = "dank 你 freund"
    result = spelling(WITH_BYTES, [line])
    assert result.unknown == result.with_unknown == 0
    assert result.byte_tokens == len("你".encode())
    assert result.byte_share == result.byte_tokens / result.tokens
    assert result.round_trip == 1
    assert spells(WITH_BYTES, [line]) == [True]


def test_bytes_of_a_byte_level_vocabulary_count_where_they_are_parts_of_a_character() -> None:
    """An ASCII byte is a character; SmolLM2 spells ɖ by two bytes."""
    vocabulary = byte_level(german(60), 280)
    assert byte_tokens(vocabulary) == {vocabulary.byte_ids[byte] for byte in range(0x80, 0x100)}
    result = spelling(vocabulary, ["dank 你 q"])
    assert (result.unknown, result.byte_tokens, result.round_trip) == (0, 3, 1)


def test_a_whole_word_is_unknown_to_wordpiece() -> None:
    result = spelling(wordpiece(["the", "##re"]), ["the there thex"])
    assert (result.tokens, result.unknown) == (4, 1)


def test_characters_that_are_lost_by_frequency() -> None:
    words = Counter({"a((": 3, "xc": 4, ")": 6, "b": 9})
    assert unknown_characters(SMALL, words) == ("(", ")", "x")
    assert unknown_characters(SMALL, words, limit=1) == ("(",)
    assert unknown_characters(WITH_BYTES, words) == ()


def test_no_text_has_no_shares() -> None:
    nothing = spelling(SMALL, [])
    assert nothing == Spelling()
    assert (nothing.unknown_share, nothing.round_trip_share, nothing.tokens_per_sentence) == (0, 0, 0)
