from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tokenizers import pre_tokenizers

from subgraft.subwords.vocabulary.entry import BYTE_OF_CHARACTER, Entry, Mark, parse_piece, spell_entry


@pytest.mark.parametrize(
    ("piece", "mark", "expected"),
    [
        ("▁er", Mark.SENTENCEPIECE, Entry("er", True)),
        ("er", Mark.SENTENCEPIECE, Entry("er", False)),
        ("##er", Mark.WORDPIECE, Entry("er", False)),
        ("er", Mark.WORDPIECE, Entry("er", True)),
        ("Ġer", Mark.BYTELEVEL, Entry("er", True)),
        ("er", Mark.BYTELEVEL, Entry("er", False)),
        ("▁", Mark.SENTENCEPIECE, None),
        ("▁▁", Mark.SENTENCEPIECE, None),
        ("Ġ", Mark.BYTELEVEL, None),
        ("Ċ", Mark.BYTELEVEL, None),
        ("##", Mark.WORDPIECE, Entry("##", True)),
        ("▁of▁the", Mark.SENTENCEPIECE, Entry("of the", True)),
        ("ÃŁ", Mark.BYTELEVEL, Entry("ß", False)),
        ("Ã", Mark.BYTELEVEL, None),
    ],
)
def test_parse_piece(piece: str, mark: Mark, expected: Entry | None) -> None:
    assert parse_piece(piece, mark) == expected


def test_a_string_means_different_subwords_under_different_marks() -> None:
    assert parse_piece("er", Mark.WORDPIECE) != parse_piece("er", Mark.SENTENCEPIECE)
    assert parse_piece("##er", Mark.WORDPIECE) == parse_piece("er", Mark.SENTENCEPIECE)


WORDS = st.text(st.characters(exclude_categories=["Cs", "Zs", "Zl", "Zp", "Cc"], exclude_characters="▁#"), min_size=1)


@given(WORDS, st.booleans(), st.sampled_from(Mark))
def test_spelling_and_parsing_are_inverse(surface: str, word_initial: bool, mark: Mark) -> None:
    entry = Entry(surface, word_initial)
    assert parse_piece(spell_entry(entry, mark), mark) == entry


def test_the_byte_alphabet_is_that_of_byte_level_tokenizers() -> None:
    assert set(BYTE_OF_CHARACTER) == set(pre_tokenizers.ByteLevel.alphabet())
    assert sorted(BYTE_OF_CHARACTER.values()) == list(range(256))
