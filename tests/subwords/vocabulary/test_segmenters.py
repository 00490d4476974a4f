"""Whichever way a tokenizer marks the beginning of a word, one entry can be segmented with and without it."""

from __future__ import annotations

import pytest
import tokenizers
from tokenizers import decoders, models, normalizers, pre_tokenizers

from subgraft.subwords.vocabulary.directory import Source
from subgraft.subwords.vocabulary.entry import Entry
from subgraft.subwords.vocabulary.tokenizer import Tokenizer

PIECES = ["<unk>", "▁", "▁farm", "farm", "er", "▁er", "ing"]
SCORES = [0.0, -4.0, -2.0, -3.0, -2.0, -2.5, -2.0]


def _sentencepiece(prefixing: str) -> Tokenizer:
    backend = tokenizers.Tokenizer(models.Unigram(list(zip(PIECES, SCORES, strict=True)), 0, False))
    backend.decoder = decoders.Metaspace()
    if prefixing in ("always", "first", "never"):
        backend.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme=prefixing)
    elif prefixing == "white space and always":
        split = [pre_tokenizers.WhitespaceSplit(), pre_tokenizers.Metaspace(prepend_scheme="always")]
        backend.pre_tokenizer = pre_tokenizers.Sequence(split)
    else:
        steps: list[normalizers.Normalizer] = [normalizers.Replace(" ", "▁")]
        if prefixing == "prepend":
            steps.insert(0, normalizers.Prepend("▁"))
        backend.normalizer = normalizers.Sequence(steps)
    return Tokenizer(Source(backend.to_str(), {}))


@pytest.mark.parametrize("prefixing", ["always", "first", "never", "white space and always", "prepend", "replace only"])
def test_sentencepiece(prefixing: str) -> None:
    ours = _sentencepiece(prefixing)
    entries = [Entry("farmer", True), Entry("farmer", False), Entry("er", True), Entry("er", False)]
    pieces = [[ours.pieces[i] for i in ids] for ids in ours.segment_batch(entries)]
    assert pieces == [["▁farm", "er"], ["farm", "er"], ["▁er"], ["er"]]


@pytest.mark.parametrize("add_prefix_space", [True, False])
def test_byte_level(add_prefix_space: bool) -> None:
    merges = [("e", "r"), ("Ġ", "er")]
    vocabulary = {piece: i for i, piece in enumerate([*"erĠ", "er", "Ġer"])}
    backend = tokenizers.Tokenizer(models.BPE(vocabulary, merges))
    backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=add_prefix_space)
    backend.decoder = decoders.ByteLevel()
    ours = Tokenizer(Source(backend.to_str(), {}))
    assert [ours.pieces[i] for i in ours.segment(Entry("er", True))] == ["Ġer"]
    assert [ours.pieces[i] for i in ours.segment(Entry("er", False))] == ["er"]
