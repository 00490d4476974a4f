"""Bits per character, against a model whose likelihood is known."""

from __future__ import annotations

import math

import pytest

from subgraft.evaluation.metrics.bits_per_character import bits_per_character, count_characters


def test_a_uniform_model_over_256_symbols_takes_eight_bits() -> None:
    text = ["abc def", "ghi"]
    characters = count_characters(text)
    assert characters == 10
    assert bits_per_character(characters * math.log(256), characters) == pytest.approx(8.0)


def test_characters_are_code_points_not_bytes() -> None:
    assert count_characters(["Übergrößenträger", "图书馆", ""]) == 19


def test_an_empty_text_has_no_bits_per_character() -> None:
    with pytest.raises(ValueError, match="empty text"):
        bits_per_character(1.0, 0)
