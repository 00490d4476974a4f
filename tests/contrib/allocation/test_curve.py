"""Curves: of BPE exactly those of trainings of each size, of unigram near them; limits; and what is refused."""

from __future__ import annotations

import io
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
import sentencepiece

from scripts import SCRIPTS, text_in
from subgraft.base.errors import UserError
from subgraft.contrib.allocation.curve import MeasuredCurve, measure, replay, segment
from subgraft.contrib.allocation.piece_training import WordTypes, bpe_pieces, normalise
from subgraft.subwords.vocabulary.capacity import average_log_probability
from subgraft.subwords.vocabulary.sentencepiece_model import LONGEST_LINE, ordinary_pieces


def trained(lines: list[str], kind: str, size: int) -> sentencepiece.SentencePieceProcessor:
    """SentencePiece's own training on the text, of so many ordinary pieces."""
    written = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(lines),
        model_writer=written,
        model_type=kind,
        vocab_size=size + 1,
        character_coverage=1.0,
        num_threads=1,
        minloglevel=2,
        bos_id=-1,
        eos_id=-1,
    )
    return sentencepiece.SentencePieceProcessor(model_proto=written.getvalue())


def judged(model: sentencepiece.SentencePieceProcessor, lines: list[str]) -> tuple[int, float]:
    """Tokens and ALP of whole lines."""
    counts = Counter(piece for ids in model.encode(lines) for piece in ids)
    result = np.array(list(counts.values()))
    return int(result.sum()), average_log_probability(result, len(lines))


@pytest.mark.parametrize("script", SCRIPTS)
def test_a_curve_of_bpe_is_that_of_trainings_of_each_size(script: str, mirror_if_any: Path | None) -> None:
    lines = text_in(script, mirror_if_any, 1500)
    characters = len({letter for line in normalise(lines) for letter in line})
    limit = measure(lambda: iter(lines), "bpe", [1_000_000]).curve.limit
    assert limit is not None
    sizes = np.linspace(characters + 5, limit, 5).astype(int).tolist()
    result = measure(lambda: iter(lines), "bpe", sizes)
    assert list(result.curve.sizes) == sizes and result.curve.way == "replay"
    for size, alp, tokens in zip(result.curve.sizes, result.curve.alp, result.curve.tokens, strict=True):
        model = trained(lines, "bpe", size)
        whole, of_lines = judged(model, lines)
        assert whole == tokens and of_lines == pytest.approx(alp, rel=1e-9)
        pieces = {model.id_to_piece(i) for i in range(1, model.get_piece_size())}
        assert result.vocabularies[size].keys() == pieces


def test_a_merge_whose_own_characters_are_joined_in_another_order_is_taken_back_rightly() -> None:
    """aba is made of ab and a: where ba comes first in rank, its characters are a and ba without it."""
    ranks = {"ba": 0, "ab": 1, "aba": 2}
    assert segment("aba", ranks, 2) == ["a", "ba"] and segment("aba", ranks, 3) == ["aba"]
    result = replay(["ba", "ab", "aba"], {"aba": 4, "c": 1}, [0, 1, 2, 3])
    assert result[3] == {"aba": 4, "c": 1} and result[2] == {"a": 4, "ba": 4, "c": 1} == result[1]
    assert result[0] == {"a": 8, "b": 4, "c": 1}


@pytest.mark.parametrize("exact", [False, True])
def test_a_curve_of_unigram_is_near_that_of_trainings_of_each_size(exact: bool, mirror_if_any: Path | None) -> None:
    lines = text_in("Latin", mirror_if_any, 2000)
    result = measure(lambda: iter(lines), "unigram", [400, 800, 1600], exact=exact)
    assert result.curve.way == ("retrained" if exact else "descent")
    for size, alp in zip(result.curve.sizes, result.curve.alp, strict=True):
        assert alp == pytest.approx(judged(trained(lines, "unigram", size), lines)[1], rel=1e-4 if exact else 0.02)
    smallest, *_, largest = (result.vocabularies[size].keys() for size in result.curve.sizes)
    assert smallest < largest or exact, "a descent only leaves pieces out"


@pytest.mark.parametrize("kind", ["unigram", "bpe"])
def test_the_limit_of_a_text_is_reached_and_said(kind: str, tmp_path: Path) -> None:
    lines = text_in("Latin", None, 60)
    result = measure(lambda: iter(lines), kind, [40, 80, 100_000])  # type: ignore[arg-type]
    assert result.curve.limit == result.curve.sizes[-1] < 100_000
    assert measure(lambda: iter(lines), kind, [40, 60]).curve.limit is None  # type: ignore[arg-type]
    result.save(tmp_path)
    assert MeasuredCurve.open(tmp_path) == result


def test_sizes_that_do_not_rise_and_text_that_is_not_there_are_refused() -> None:
    with pytest.raises(UserError, match="sizes must increase, not 200, 100"):
        measure(lambda: iter(["some text"]), "bpe", [200, 100])
    with pytest.raises(UserError, match="there is no text"):
        measure(lambda: iter(["", " "]), "bpe", [100])
    with pytest.raises(UserError, match="no room for the special tokens and the text's characters"):
        measure(lambda: iter(["abcdefghij"]), "bpe", [5])


def test_words_are_counted_as_sentencepiece_parts_them() -> None:
    result = WordTypes.of(["  a  ﬁne day ", "", "a day"])
    assert result.words == {"a": 2, "fine": 1, "day": 2} and result.sentences == 2 and result.tokens == 5


def test_no_word_is_lost_where_those_of_one_count_are_longer_than_a_line_may_be() -> None:
    letters = [chr(ord("\u4e00") + i) for i in range(20)]
    words = dict.fromkeys((letter * (LONGEST_LINE // 30) for letter in letters), 2)
    assert sum(len(word.encode()) for word in words) > LONGEST_LINE
    assert set(letters) < ordinary_pieces(bpe_pieces(words, 30)).keys()
