from __future__ import annotations

import itertools
from pathlib import Path

import pytest

from subgraft.data.text.reading import lines
from subgraft.subwords.vocabulary.learn import learn
from subgraft.subwords.vocabulary.tokenizer import Tokenizer
from subgraft.subwords.vocabulary.words import WordBoundaries, text_words, unspaced
from vocabularies import byte_level, unigram, wordpiece

PIECES = [
    "▁",
    "▁the",
    "▁py",
    "▁Py",
    "Py",
    "thon",
    "s",
    "的",
    "文档",
    "▁我们",
    "学习",
    "を",
    "東京",
    "。",
    ",",
    "ไทย",
    "한국",
    "▁한국",
    "어",
]


def _words(tokenizer: Tokenizer, text: str) -> list[str]:
    """The words of a text, each as the pieces that it is made of."""
    words = WordBoundaries.of(tokenizer).words(tokenizer.encode(text))
    return ["".join(tokenizer.pieces[token] for token in word) for word in words]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("the pythons,", ["▁the", "▁pythons,"]),
        ("Python的文档", ["▁Python", "的", "文档"]),
        ("文档的Pythons。", ["▁文档", "的", "Pythons", "。"]),
        ("我们学习 the Python。", ["▁我们", "学习", "▁the", "▁Python", "。"]),
        ("東京をPython", ["▁東京", "を", "Python"]),
        ("ไทยไทย", ["▁ไทย", "ไทย"]),
        ("한국어 한국어", ["▁한국어", "▁한국어"]),
    ],
)
def test_words_are_between_spaces_and_tokens_where_a_script_has_none(text: str, words: list[str]) -> None:
    assert _words(unigram(PIECES), text) == words


def test_bytes_belong_to_the_word_that_they_stand_in() -> None:
    tokenizer = unigram(PIECES, byte_fallback=True)
    assert _words(tokenizer, "pyäs") == ["▁py<0xC3><0xA4>s"]
    assert _words(tokenizer, "的鱻的") == ["▁的", "<0xE9><0xB1><0xBB>", "的"]


def test_special_tokens_are_words_of_their_own() -> None:
    tokenizer = unigram(PIECES)
    end, thon = tokenizer.special["eos"], tokenizer.pieces.index("thon")
    assert WordBoundaries.of(tokenizer).words([thon, thon, end, end, thon]) == [[thon, thon], [end], [end], [thon]]
    assert WordBoundaries.of(tokenizer).words([]) == []


def test_wordpiece_says_which_subwords_go_on() -> None:
    tokenizer = wordpiece(["py", "##thon", "##s", "的", "##的", "##文"])
    assert _words(tokenizer, "pythons 的 py") == ["py##thon##s", "的", "py"]
    assert _words(tokenizer, "py的文thon") == ["py", "##的", "##文", "##thon"]


def test_byte_level_words_begin_with_a_space() -> None:
    tokenizer = byte_level(["the pythons of the town"] * 3, 300)
    assert _words(tokenizer, "the pythons") == ["the", "Ġpythons"]
    # Bytes that are not a whole character, after a space and without one.
    assert len(_words(tokenizer, "the 文ä thé")) == 3


@pytest.mark.parametrize("character", "我々〇ひカーｶ。ไລကខབ")
def test_scripts_without_spaces(character: str) -> None:
    assert unspaced(character)


@pytest.mark.parametrize("character", ["a", "é", "ж", "한", "ا", "अ", "1", ",", "", "，"])
def test_other_characters_say_nothing(character: str) -> None:
    assert not unspaced(character)


def test_words_of_real_chinese_are_not_sentences(mirror: Path) -> None:
    text = list(itertools.islice(lines(mirror / "en-zh" / "tatoeba" / "train.zh.gz"), 6000))
    tokenizer = learn(text, kind="unigram", size=3500, character_coverage=1.0, byte_fallback=True)
    boundaries = WordBoundaries.of(tokenizer)
    segmented = tokenizer.encode_batch(text[:2000])
    by_space = sum(len(sentence.split()) for sentence in text[:2000])
    words = [word for tokens in segmented for word in boundaries.words(tokens)]
    tokens = sum(map(len, segmented))
    assert by_space < 0.25 * tokens
    # What is more than a token is a name or a number in another script, or has a mark in front.
    assert len(words) > 0.8 * tokens
    assert sum(len(word) > 2 for word in words) < 0.02 * len(words)


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("the  cat sat.", ["the", "  cat", " sat."]),
        ("Python的文档 is", ["Python", "的", "文", "档", " is"]),
        ("ก่อนนี้ ok", ["ก่", "อ", "น", "นี้", " ok"]),
        ("école e\u0301cole", ["école", " e\u0301cole"]),
        (" x ", [" x "]),
        ("", []),
    ],
)
def test_words_of_a_line_without_a_vocabulary(line: str, words: list[str]) -> None:
    assert text_words(line) == words
