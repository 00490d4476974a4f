from __future__ import annotations

import torch
from torch import nn

from subgraft.embeddings.initialisers.new_rows import InitialiserInputs, mix_subwords
from subgraft.modeling.sides import Side
from subgraft.subwords.similar_tokens.finder import Fallback
from subgraft.subwords.similar_tokens.token_subwords import Parts, subwords
from subgraft.subwords.vocabulary.entry import Entry
from subgraft.subwords.vocabulary.tokenizer import Tokenizer
from vocabularies import byte_level, unigram, wordpiece


def _parts(source: Tokenizer, entry: Entry) -> tuple[list[str], Fallback]:
    (parts,) = subwords(source, [entry])
    return [source.pieces[i] for i in parts.ids], parts.fallback


def test_bytes_are_left_out_where_there_are_ordinary_subwords() -> None:
    source = unigram(["▁", "▁hut", "hut", "los"], byte_fallback=True)
    assert _parts(source, Entry("hut(los", True)) == (["▁hut", "los"], Fallback.NONE)
    assert _parts(source, Entry("(", False)) == (["<0x28>"], Fallback.BYTES)
    assert _parts(source, Entry("ß", True)) == (["<0xC3>", "<0x9F>"], Fallback.BYTES)


def test_characters_stand_in_for_a_word_that_is_unknown_as_a_whole() -> None:
    source = wordpiece(["n", "##a", "##v"])
    assert _parts(source, Entry("naïv", True)) == (["n", "##a", "##v"], Fallback.CHARACTERS)
    assert _parts(source, Entry("ïï", True)) == ([], Fallback.MEAN)


def test_pieces_of_a_character_are_bytes() -> None:
    source = byte_level(["a b c d e"] * 3, 270)
    (parts,) = subwords(source, [Entry("漢", False)])
    assert parts == Parts([source.byte_ids[byte] for byte in "漢".encode()], Fallback.BYTES)
    assert _parts(source, Entry("漢a", False)) == (["a"], Fallback.NONE)


def test_tokens_that_the_upstream_model_reads_as_unknown_are_reported() -> None:
    entries = [Entry("nav", True), Entry("naïv", True), Entry("ïï", True)]
    assert [each.is_readable for each in subwords(wordpiece(["n", "##a", "##v"]), entries)] == [True, False, False]
    assert [each.is_readable for each in subwords(unigram(["▁n", "a"], byte_fallback=True), entries)] == [True] * 3


def test_rows_follow_and_are_counted_by_what_stood_in() -> None:
    source = unigram(["▁hut", "los", "▁"], byte_fallback=True)
    table = nn.Embedding(len(source) + 5, 8)  # five spare rows
    with torch.no_grad():
        table.weight[len(source) :] = torch.nan
    side = Side("decoder", table, None, None, True, None)
    entries = [Entry("hut(los", True), Entry("((", False)]
    rows = mix_subwords(InitialiserInputs(side, source, entries, 2, 1.0, 0, 10, None))
    weight, ids = table.weight.detach(), source.ids
    ordinary = [ids[Entry("hut", True)], ids[Entry("los", False)]]
    torch.testing.assert_close(rows.input[0], weight[ordinary].mean(0))
    torch.testing.assert_close(rows.input[1], weight[source.byte_ids[0x28]])
    torch.testing.assert_close(rows.input[2:], weight[ordinary].mean(0).expand(2, -1))
    assert rows.fallbacks == {"characters": 0, "bytes": 1, "mean": 0}
