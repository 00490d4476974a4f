"""ALP: two ways to compute it, and what of a text is counted."""

from __future__ import annotations

import math
from collections import Counter

import numpy as np
import pytest

from subgraft.base.errors import UserError
from subgraft.subwords.vocabulary.capacity import Capacity, average_log_probability, capacity
from subgraft.subwords.vocabulary.learn import learn
from toys import english


def test_the_sum_over_sentences_and_the_entropy_of_the_counts_are_one() -> None:
    lines = english(300, 7)
    tokenizer = learn(lines, kind="unigram", size=80)
    encoded = tokenizer.encode_batch(lines)
    counts = Counter(piece for ids in encoded for piece in ids)
    total = sum(counts.values())
    by_sentence = math.fsum(math.log(counts[piece] / total) for ids in encoded for piece in ids) / len(lines)
    whole = np.array([counts[i] for i in range(len(tokenizer))])
    assert average_log_probability(whole, len(lines)) == pytest.approx(by_sentence, rel=1e-9)
    assert capacity(tokenizer, lines).alp == pytest.approx(by_sentence, rel=1e-9)


def test_a_text_of_one_piece_is_certain_and_none_is_nothing() -> None:
    assert average_log_probability(np.array([0, 12]), 3) == 0
    assert average_log_probability(np.array([0, 0]), 3) == 0


def test_what_cannot_be_spelled_is_counted_and_blank_lines_are_not() -> None:
    tokenizer = learn(english(200, 1), kind="unigram", size=80)
    result = capacity(tokenizer, [*english(20, 2), " ", "чай", ""])
    assert result.sentences == 21 and result.unknown == 1 and result.byte_tokens == 0
    assert result.words == sum(len(line.split()) for line in english(20, 2)) + 1
    assert result.tokens_per_word == result.tokens / result.words
    assert Capacity.from_json(result.to_json()) == result


def test_bytes_that_spell_what_no_piece_has_are_counted_apart() -> None:
    tokenizer = learn(english(200, 1), kind="bpe", size=400, byte_fallback=True)
    result = capacity(tokenizer, ["чай"])
    assert result.unknown == 0 and result.byte_tokens == len("чай".encode())


def test_no_text_is_refused() -> None:
    tokenizer = learn(english(200, 1), kind="unigram", size=80)
    with pytest.raises(UserError, match="no text to evaluate"):
        capacity(tokenizer, ["", "  "])
