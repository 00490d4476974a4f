from __future__ import annotations

import numpy as np
import pytest

from subgraft.data.synthetic_pairs import copied_pairs, without_words
from toys import german

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
