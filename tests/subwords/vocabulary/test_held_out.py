"""A vocabulary without some of its subwords: they are never cut into, and nothing else moves."""

from __future__ import annotations

import pytest

from subgraft.subwords.vocabulary.entry import Entry
from subgraft.subwords.vocabulary.learn import learn
from subgraft.subwords.vocabulary.tokenizer import Tokenizer
from toys import german
from vocabularies import byte_level, invented, unigram, wordpiece

LINES = german(300)
LEARNT = {
    "unigram": lambda: learn(LINES, kind="unigram", size=120),
    "bpe": lambda: learn(LINES, kind="bpe", size=120),
    "wordpiece": lambda: learn(LINES, kind="wordpiece", size=120),
    "byte-level": lambda: byte_level(invented(200), 340),
}


def longest(tokenizer: Tokenizer, count: int) -> list[Entry]:
    return sorted(tokenizer.ids, key=lambda entry: (-len(entry.surface), entry))[:count]


@pytest.mark.parametrize("kind", LEARNT)
def test_it_cuts_nothing_into_what_it_lacks(kind: str) -> None:
    whole = LEARNT[kind]()
    gone = longest(whole, 25)
    ids = {whole.ids[entry] for entry in gone}
    reduced = whole.without(gone)
    lines = LINES if kind != "byte-level" else invented(200)
    assert any(ids & set(cut) for cut in whole.encode_batch(lines))
    assert not any(ids & set(cut) for cut in reduced.encode_batch(lines))
    assert not any(ids & set(cut) for cut in reduced.segment_batch(gone))
    assert [reduced.decode(cut) for cut in reduced.encode_batch(lines)] == [
        whole.decode(cut) for cut in whole.encode_batch(lines)
    ]


@pytest.mark.parametrize("kind", LEARNT)
def test_every_other_subword_keeps_its_id(kind: str) -> None:
    whole = LEARNT[kind]()
    gone = longest(whole, 25)
    reduced = whole.without(gone)
    assert len(reduced) == len(whole)
    assert reduced.special == whole.special
    assert reduced.ids == {entry: i for entry, i in whole.ids.items() if entry not in gone}
    assert reduced.fingerprint != whole.fingerprint


def test_a_word_falls_to_the_next_best_pieces() -> None:
    whole = unigram(["▁thank", "ful", "▁", "than", "k", "t", "h", "a", "n", "f", "u", "l"])
    reduced = whole.without([Entry("thank", True)])
    assert [whole.pieces[i] for i in whole.segment(Entry("thankful", True))] == ["▁thank", "ful"]
    assert [reduced.pieces[i] for i in reduced.segment(Entry("thankful", True))] == ["▁", "than", "k", "ful"]


def test_a_continuation_is_not_its_word_initial_twin() -> None:
    whole = wordpiece(["er", "##er", "e", "##e", "##r", "r"])
    reduced = whole.without([Entry("er", True)])
    assert [reduced.pieces[i] for i in reduced.segment(Entry("er", True))] == ["e", "##r"]
    assert [reduced.pieces[i] for i in reduced.segment(Entry("er", False))] == ["##er"]
