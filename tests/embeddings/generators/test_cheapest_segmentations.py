"""Cuts by dynamic programming against all cuts there are."""

from __future__ import annotations

import math
from itertools import combinations, pairwise

import pytest

from subgraft.embeddings.generators.matched_resegment import MAX_PIECES, CheapestSegmentations
from subgraft.subwords.vocabulary.entry import Entry
from subgraft.subwords.vocabulary.tokenizer import Tokenizer
from toys import cased_tokenizer, german, german_tokenizer
from vocabularies import unigram


def _cost(tokenizer: Tokenizer, token: int) -> float:
    return math.log(2 + int(tokenizer.frequency_rank[token]))


def _all_cuts(tokenizer: Tokenizer, entry: Entry, count: int) -> list[list[int]]:
    """Every cut into so many tokens, itself left out, without bare marks."""
    cuts = []
    for inner in combinations(range(1, len(entry.surface)), count - 1):
        ends = pairwise((0, *inner, len(entry.surface)))
        parts = [Entry(entry.surface[a:b], entry.word_initial and a == 0) for a, b in ends]
        ids = [tokenizer.ids.get(part, -1) for part in parts]
        if -1 not in ids and parts != [entry]:
            cuts.append(ids)
    return cuts


@pytest.mark.parametrize("tokenizer", [german_tokenizer(), cased_tokenizer()], ids=["unigram", "wordpiece"])
def test_no_cut_into_as_many_tokens_costs_less(tokenizer: Tokenizer) -> None:
    cuts = CheapestSegmentations(tokenizer)
    words = sorted({word.strip(".") for line in german(15) for word in line.split()}, key=lambda w: (len(w), w))
    for word in words[:25]:
        for entry in (Entry(word, False), Entry(word, True)):
            for count in range(1, min(len(word), 5) + 1):
                cheapest, possible = cuts.of(entry)[count], _all_cuts(tokenizer, entry, count)
                if not possible:
                    continue
                assert cheapest is not None
                costs = [sum(_cost(tokenizer, token) for token in ids) for ids in possible]
                assert sum(_cost(tokenizer, token) for token in cheapest) <= min(costs) + 1e-9
                assert "".join(tokenizer.entries[token].surface for token in cheapest) == word  # type: ignore[union-attr]
                assert len(cheapest) == count


def test_a_token_is_not_a_cut_of_itself() -> None:
    cuts = CheapestSegmentations(unigram(["ab", "a", "b", "▁ab"]))
    assert cuts.of(Entry("ab", False))[1] is None
    assert cuts.of(Entry("ab", True))[1] is None


def test_a_word_may_begin_with_a_bare_mark_that_is_not_counted() -> None:
    source = unigram(["▁", "ab", "a", "b", "▁ab"])
    ids = source.ids
    cuts = CheapestSegmentations(source).of(Entry("ab", True))
    assert cuts[1] == (ids[Entry("ab", False)],)
    assert cuts[2] == (ids[Entry("a", False)], ids[Entry("b", False)])
    assert cuts[3] is None


def test_nothing_is_cut_into_more_than_most_pieces() -> None:
    cuts = CheapestSegmentations(unigram(["a"])).of(Entry("a" * 30, False))
    assert len(cuts) == MAX_PIECES + 1 and not any(cuts)
    assert CheapestSegmentations(unigram(["b"])).of(Entry("ab", False)) == (None,) * (MAX_PIECES + 1)
