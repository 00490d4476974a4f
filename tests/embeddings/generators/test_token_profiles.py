"""Tokens that simulation compares: their profiles and their pieces."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from subgraft.base.errors import UserError
from subgraft.embeddings.generators.matched_resegment import TokenProfile, profiles_of
from subgraft.embeddings.generators.network import ABSENT, MAX_PIECES, TokenPieces, commonness
from subgraft.subwords.similar_tokens.token_subwords import subwords
from subgraft.subwords.vocabulary.entry import Entry
from toys import german_tokenizer
from vocabularies import unigram


def test_profiles_are_those_of_new_tokens_with_ordinary_subwords() -> None:
    source = unigram(["▁", "▁ab", "c", "d", "bcdx", "xcdy"], byte_fallback=True)
    target = unigram(["▁ab", "▁abcd", "cd", "(", "c"])
    assert sorted(profiles_of(source, target, 10)) == [TokenProfile(False, 2, 2, 2), TokenProfile(True, 4, 3, 0)]
    assert sorted(profiles_of(source, target, 3))[0] == TokenProfile(False, 2, 2, 1), "hyperwords are capped"


def test_without_new_tokens_there_is_nothing_to_match() -> None:
    source = unigram(["▁ab", "c"])
    with pytest.raises(UserError, match="no new subword that simulated tokens could resemble"):
        profiles_of(source, source, 10)


def test_pieces_are_what_the_upstream_vocabulary_cuts_a_token_into() -> None:
    source, entries = german_tokenizer(), [Entry("dankbarkeit", True), Entry("schaft", False), Entry("a" * 30, True)]
    tokens = TokenPieces.of(source, entries, others=[[7, 8], []])
    assert [token for token in tokens.pieces[-2].tolist() if token != ABSENT] == [7, 8]
    for row, parts in zip(tokens.pieces.tolist(), subwords(source, entries), strict=False):
        assert [token for token in row if token != ABSENT] == parts.ids[:MAX_PIECES]
    assert tokens.pieces[-1].eq(ABSENT).all()
    assert tokens.features[:, 0].tolist() == [1.0, 0.0, 1.0, 0.0, 0.0]
    assert tokens.features[:, 3].eq(0).all()  # nobody said how common they are


def test_how_common_a_token_is_goes_by_its_rank_whatever_the_kind_of_vocabulary() -> None:
    for kind in ("unigram", "bpe"):
        vocabulary = german_tokenizer(120, kind)
        values, ordinary = commonness(vocabulary), vocabulary.ordinary_ids
        order = ordinary[np.argsort(-values[ordinary], kind="stable")]
        assert (np.diff(vocabulary.frequency_rank[order]) > 0).all()
        assert values[order[0]] == 2.0
        assert np.isclose(values[order[-1]], 2.0 - np.log(len(ordinary)) / 4)
        assert (values[sorted(vocabulary.special_ids)] == 0).all()


def test_some_of_the_tokens() -> None:
    tokens = TokenPieces.of(
        german_tokenizer(), [Entry("dank", True), Entry("haft", False)], np.array([0.5, 1.5], dtype=np.float32)
    )
    taken = tokens.take(torch.tensor([1]))
    assert taken.pieces.tolist() == tokens.pieces[1:].tolist()
    assert taken.features[0, 2:].tolist() == [1.5, 1.0]
