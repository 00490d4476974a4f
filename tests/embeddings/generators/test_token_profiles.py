from __future__ import annotations

import pytest

from subgraft.base.errors import UserError
from subgraft.embeddings.generators.matched_resegment import TokenProfile, profiles_of
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
