"""Pairs that are made from monolingual text: their tag, and copies."""

from __future__ import annotations

import numpy as np
import pytest

from subgraft.base.errors import UserError
from subgraft.data.synthetic_pairs import add_tag, copied_pairs, is_tagged, require_tag, without_words
from subgraft.subwords.vocabulary.learn import learn
from toys import english, english_tokenizer, german


def test_a_vocabulary_with_bytes_spells_the_tag_and_one_without_is_reported() -> None:
    spelling = learn(english(), kind="unigram", size=350, byte_fallback=True)
    require_tag(spelling, "encoder")
    assert spelling.decode(spelling.encode(add_tag("thank."))) == "<BT> thank."
    with pytest.raises(UserError, match="cannot spell the tag <BT>"):
        require_tag(english_tokenizer(), "encoder")


def test_a_corpus_says_by_what_it_was_made_of_whether_it_is_tagged() -> None:
    assert is_tagged({"kind": "back-translated", "tag": True})
    assert not is_tagged({"kind": "back-translated", "tag": False}) and not is_tagged({"kind": "copied"})


LINES = german(400)


def test_the_target_is_the_line_and_the_source_some_of_its_words_in_their_order() -> None:
    for (source, target), line in zip(copied_pairs(LINES, 0.3, 1), LINES, strict=True):
        words = iter(target.split())
        assert target == line
        assert source and all(word in words for word in source.split())


def test_the_share_of_words_that_is_left_out() -> None:
    selected, words = (sum(len(pair[side].split()) for pair in copied_pairs(LINES, 0.3, 1)) for side in (0, 1))
    assert selected / words == pytest.approx(0.7, abs=0.03)
    assert [source for source, _ in copied_pairs(LINES, 0.0, 1)] == LINES


def test_a_copy_is_a_function_of_the_seed_and_the_line() -> None:
    assert list(copied_pairs(LINES, 0.3, 1)) == list(copied_pairs(LINES, 0.3, 1)) != list(copied_pairs(LINES, 0.3, 2))
    assert list(copied_pairs(LINES[:50], 0.3, 1)) == list(copied_pairs(LINES, 0.3, 1))[:50]
    assert len({source for source, _ in copied_pairs([LINES[0]] * 50, 0.3, 1)}) > 1


def test_text_without_white_space_loses_characters_and_never_all() -> None:
    line, generator = "系统无法打开该文件因为它已经被删除", np.random.default_rng(1)
    sources = [without_words(line, 0.3, generator) for _ in range(200)]
    assert np.mean([len(source) for source in sources]) / len(line) == pytest.approx(0.7, abs=0.03)
    assert all(without_words("文件 ok", 0.99, generator) for _ in range(100))
