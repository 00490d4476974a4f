from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from subgraft.subwords.similar_tokens import hyperwords
from subgraft.subwords.similar_tokens.hyperwords import HyperwordIndex
from subgraft.subwords.vocabulary.entry import Entry

ENTRIES = st.builds(Entry, st.text("ab", min_size=1, max_size=7), st.booleans())
Matches = list[tuple[int, int, bool, bool]]


def _naive(vocabulary: list[Entry], tokens: list[Entry], most: int) -> Matches:
    """Query, entry, whether it begins it, whether it ends it."""
    result: Matches = []
    for i, token in enumerate(tokens):
        places = [_places(token, entry) for entry in vocabulary]
        holding = [(k, at) for k, at in enumerate(places) if at][:most]
        for k, at in holding:
            ends = vocabulary[k].surface.endswith(token.surface)
            result.append((i, k, at[0] == 0, ends and (not token.word_initial or len(at) > 1)))
    return result


def _places(token: Entry, entry: Entry) -> list[int]:
    if len(entry.surface) <= len(token.surface):
        return []
    spots = range(len(entry.surface) - len(token.surface) + 1)
    places = [at for at in spots if entry.surface.startswith(token.surface, at)]
    if token.word_initial:
        return [0] if entry.word_initial and 0 in places else []
    return [at for at in places if at > 0 or not entry.word_initial]


def _pairs(index: HyperwordIndex, tokens: list[Entry], most: int) -> Matches:
    result = index.find(tokens, most)
    columns = (result.queries, result.entries, result.prefix, result.suffix)
    return list(zip(*(column.tolist() for column in columns), strict=True))


@given(st.lists(ENTRIES, max_size=40, unique=True), st.lists(ENTRIES, max_size=8), st.integers(1, 12))
def test_finds_what_a_scan_finds(vocabulary: list[Entry], tokens: list[Entry], most: int) -> None:
    assert _pairs(HyperwordIndex(vocabulary), tokens, most) == _naive(vocabulary, tokens, most)


def test_equal_hashes_do_no_harm(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hyperwords, "_mix_bits", lambda codes: np.zeros(len(codes), dtype=np.uint64))
    surfaces = [a + b + c for a in "abcd" for b in ["", *"abcd"] for c in ["", *"abcd"]]
    vocabulary = [Entry(surface, initial) for surface in dict.fromkeys(surfaces) for initial in (True, False)]
    tokens = [Entry(surface, initial) for surface in ("a", "b", "cd", "dc") for initial in (True, False)]
    index = HyperwordIndex(vocabulary)
    for most in (1, 5, 100):
        assert _pairs(index, tokens, most) == _naive(vocabulary, tokens, most)


def test_tokens_longer_than_the_whole_vocabulary() -> None:
    assert _pairs(HyperwordIndex([Entry("ab", True)]), [Entry("abcdefgh", False)], 5) == []
    assert _pairs(HyperwordIndex([]), [Entry("a", False)], 5) == []


def test_every_script_is_characters() -> None:
    vocabulary = [Entry("漢字辞典", False), Entry("𝒜𝒷𝒸", True), Entry("naïve", True)]
    tokens = [Entry("字辞", False), Entry("𝒷", False), Entry("na", True), Entry("ïv", False), Entry("na", False)]
    result = [(query, entry) for query, entry, *_ in _pairs(HyperwordIndex(vocabulary), tokens, 5)]
    assert result == [(0, 0), (1, 1), (2, 2), (3, 2)]
