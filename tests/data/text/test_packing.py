"""Blocks of sentences and pairs of segments: what they hold, and what is drawn by chance."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from scipy.stats import chisquare

from subgraft.base.errors import UserError
from subgraft.data.text.documents import DocumentText
from subgraft.data.text.encoded import Sequences
from subgraft.data.text.packing import (
    PairSettings,
    SegmentPair,
    SegmentPairs,
    doc_sentences,
    full_sentences,
)
from subgraft.data.text.truncation import longest_first

SEPARATOR = -1
# Sentences per document. The fourth is the rest of the third behind a gap.
SIZES, NUMBERS = (6, 9, 4, 5, 1, 7), (0, 1, 2, 2, 3, 4)
# A token is its sentence times 100 and its place there.
LENGTHS = [3 + (7 * sentence) % 5 for sentence in range(sum(SIZES))]


def _text(sizes: tuple[int, ...] = SIZES, numbers: tuple[int, ...] = NUMBERS) -> DocumentText:
    starts = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
    lines: Any = [""] * int(starts[-1])
    return DocumentText("en", lines, starts, np.array(numbers, dtype=np.int64))


def _sentences(lengths: list[int] | None = None) -> Sequences:
    return Sequences.of([[100 * at + place for place in range(length)] for at, length in enumerate(lengths or LENGTHS)])


def _pairs(room: int = 20, seed: int = 1, **settings: Any) -> SegmentPairs:
    return SegmentPairs(_sentences(), _text(), PairSettings(room, **settings), seed)


def _drawn(pairs: SegmentPairs, times: int = 300) -> list[tuple[int, SegmentPair]]:
    return [
        (index, pairs.pair(index, np.random.default_rng([3, time, index])))
        for time in range(times)
        for index in range(len(pairs))
    ]


def _of(tokens: list[int]) -> list[int]:
    """The sentences of a segment, which must be complete."""
    sentences = list(dict.fromkeys(token // 100 for token in tokens))
    assert tokens == [100 * at + place for at in sentences for place in range(LENGTHS[at])], "no sentence is cut"
    return sentences


def _document(sentence: int) -> int:
    return NUMBERS[int(np.searchsorted(_text().starts, sentence, side="right")) - 1]


def test_blocks_of_a_document_have_all_its_sentences_once_and_no_other() -> None:
    blocks = doc_sentences(_sentences(), _text(), 20)
    read = [_of(blocks[index]) for index in range(len(blocks))]
    assert [sentence for block in read for sentence in block] == list(range(sum(SIZES)))
    assert all(len({_document(sentence) for sentence in block}) == 1 for block in read)
    assert [len(blocks[index]) for index in range(len(blocks))] == blocks.lengths.tolist()
    for block, following in pairwise(read):
        if _document(block[-1]) == _document(following[0]) and block[-1] + 1 not in _text().starts:
            assert sum(LENGTHS[sentence] for sentence in [*block, following[0]]) > 20, "as many as fit"


def test_full_sentences_cross_documents_with_a_separator_between_them() -> None:
    blocks = full_sentences(_sentences(), _text(), 40, SEPARATOR)
    read = [blocks[index] for index in range(len(blocks))]
    assert [len(block) for block in read] == blocks.lengths.tolist() and max(map(len, read)) <= 40
    assert len(read) < len(doc_sentences(_sentences(), _text(), 40))
    sentences = [_of([token for token in block if token != SEPARATOR]) for block in read]
    assert [sentence for block in sentences for sentence in block] == list(range(sum(SIZES)))
    for block in read:
        assert block[-1] != SEPARATOR, "the end of the input stands there"
        for before, token, after in zip(block, block[1:], block[2:], strict=False):
            if token == SEPARATOR:
                assert after // 100 in _text().starts and before // 100 == after // 100 - 1
    inner = sum(start not in [block[0] for block in sentences] for start in _text().starts[1:-1])
    assert sum(block.count(SEPARATOR) for block in read) == inner > 2, "every boundary within a block has one"


def test_a_sentence_longer_than_a_block_is_cut_to_it() -> None:
    text = _text((2, 1), (0, 1))
    for blocks in (
        doc_sentences(_sentences([4, 50, 3]), text, 12),
        full_sentences(_sentences([4, 50, 3]), text, 12, SEPARATOR),
    ):
        assert blocks[1] == [100 + place for place in range(12)]
        assert blocks.lengths.max() == 12


def test_segments_follow_each_other_in_half_of_the_pairs_and_are_of_two_documents_in_the_others() -> None:
    drawn, follows = _drawn(_pairs()), Counter[bool]()
    for _, pair in drawn:
        first, second = _of(pair.first), _of(pair.second)
        follows[pair.follows] += 1
        assert first == list(range(first[0], first[-1] + 1)) and second == list(range(second[0], second[-1] + 1))
        assert (
            len({_document(sentence) for sentence in first}) == len({_document(sentence) for sentence in second}) == 1
        )
        assert (second[0] == first[-1] + 1) or not pair.follows
        assert (_document(first[0]) == _document(second[0])) == pair.follows
        assert len(pair.first) + len(pair.second) <= 20
    assert chisquare(list(follows.values())).pvalue > 0.001


def test_the_place_between_segments_and_the_other_document_are_uniform() -> None:
    places: dict[int, Counter[int]] = {}
    others = Counter[int]()
    for index, pair in _drawn(_pairs(room=36), 1500):
        if pair.follows:
            places.setdefault(index, Counter())[len(_of(pair.first))] += 1
        elif index == 0:
            others[int(np.searchsorted(_text().starts, _of(pair.second)[0], side="right")) - 1] += 1
    assert all(chisquare(list(counts.values())).pvalue > 1e-4 for counts in places.values() if len(counts) > 1)
    assert max(map(len, places.values())) > 4
    assert set(others) == {1, 2, 3, 4, 5}, "a document of one sentence may be drawn, the own one never"
    assert chisquare(list(others.values())).pvalue > 0.001


def test_length_does_not_show_which_segments_follow() -> None:
    """Also in short documents, where filling up the room would."""
    lengths: dict[bool, list[int]] = {True: [], False: []}
    for _, pair in _drawn(SegmentPairs(_sentences(), _text(), PairSettings(200), 1), 500):
        lengths[pair.follows].append(len(pair.first) + len(pair.second))
    assert abs(np.mean(lengths[True]) - np.mean(lengths[False])) < 0.1 * np.mean(lengths[True])


def test_every_sentence_of_a_document_of_two_or_more_is_in_a_block() -> None:
    seen = set[int]()
    for _, pair in _drawn(_pairs(), 40):
        seen |= set(_of(pair.first)) | (set(_of(pair.second)) if pair.follows else set())
    assert seen == set(range(sum(SIZES))) - {24}, "sentence 24 is a document alone"


def test_a_tenth_of_the_blocks_is_shorter() -> None:
    sizes, numbers = (40,) * 200, tuple(range(200))
    sentences = Sequences.of([[at % 1000] for at in range(8000)])
    whole = SegmentPairs(sentences, _text(sizes, numbers), PairSettings(10), 1)
    assert set(whole.lengths.tolist()) == {10}
    some = SegmentPairs(sentences, _text(sizes, numbers), PairSettings(10, short=0.1), 1)
    short = (some.lengths < 10).mean()
    assert 0.05 < short < 0.35 and some.lengths.min() == 2
    again = SegmentPairs(sentences, _text(sizes, numbers), PairSettings(10, short=0.1), 1)
    assert (some.lengths == again.lengths).all()


def test_pairs_of_sentences_have_two() -> None:
    pairs = _pairs(room=100, sentences=2)
    assert len(pairs) == sum(-(-size // 2) for size in SIZES if size > 1)
    assert all(len(_of(pair.first)) == len(_of(pair.second)) == 1 for _, pair in _drawn(pairs, 50))


def test_two_sentences_that_do_not_fit_lose_tokens_at_both_ends_of_the_longer_one() -> None:
    pairs = SegmentPairs(_sentences([4, 30, 2, 2]), _text((2, 2), (0, 1)), PairSettings(10), 1)
    begins = Counter[int]()
    for time in range(400):
        first, second, follows = pairs.pair(0, np.random.default_rng(time))
        assert len(first) + len(second) <= 10 and first == [0, 1, 2, 3]
        if follows:
            assert len(second) == 6 and second == list(range(second[0], second[0] + 6))
            begins[second[0] - 100] += 1
    assert set(begins) <= set(range(5)), "what is longer than the room was cut at its end"
    assert begins[0] < begins[2] > begins[4], "each token goes from a random end"
    assert longest_first(4, 30, 10) == (4, 6) and longest_first(30, 30, 11) == (5, 6)


def test_pairs_need_two_documents_one_of_them_of_two_sentences() -> None:
    with pytest.raises(UserError, match="has one document") as error:
        SegmentPairs(_sentences(), _text((20, len(LENGTHS) - 20), (0, 0)), PairSettings(20), 1)
    assert "doc-sentences" in error.value.hint and "raise it" in error.value.hint
    with pytest.raises(UserError, match="no document in 'en' has two sentences"):
        SegmentPairs(_sentences([3, 4]), _text((1, 1), (0, 1)), PairSettings(20), 1)
