from __future__ import annotations

from subgraft.subwords.similar_tokens.finder import SimilarRow, SimilarTokenFinder, similar_rows
from subgraft.subwords.vocabulary.entry import Entry
from subgraft.subwords.vocabulary.tokenizer import Tokenizer
from vocabularies import unigram, wordpiece


def _rows(tokenizer: Tokenizer, *entries: Entry) -> list[SimilarRow]:
    return list(similar_rows(tokenizer, entries, SimilarTokenFinder(tokenizer).find(entries)))


def test_rows_are_spelled_with_the_vocabularys_mark() -> None:
    assert _rows(unigram(["▁pre", "view", "▁previews"]), Entry("preview", True)) == [
        ("▁preview", "▁pre", "subword", "prefix", 1),
        ("▁preview", "view", "subword", "suffix", 2),
        ("▁preview", "▁previews", "hyperword", "prefix", 3),
    ]


def test_stand_ins_are_distinguished() -> None:
    kinds = [
        (row.token, row.kind, row.rank) for row in _rows(wordpiece(["n", "##a"]), Entry("naï", True), Entry("ï", False))
    ]
    assert kinds == [("naï", "character", 1), ("naï", "character", 2), ("##ï", "mean", 1)]
    fallback = unigram(["▁a"], byte_fallback=True)
    assert [row.kind for row in _rows(fallback, Entry("é", False))] == ["byte", "byte"]
