from __future__ import annotations

from collections import Counter
from statistics import fmean
from typing import TypeAlias

import numpy as np
import pytest

from subgraft.embeddings.generators.matched_resegment import MatchedResegmenter, TokenProfile
from subgraft.embeddings.generators.resegment import Resegmentation
from subgraft.subwords.vocabulary.entry import Entry
from subgraft.subwords.vocabulary.learn import learn
from subgraft.subwords.vocabulary.tokenizer import Tokenizer
from toys import english

TEXT = english(60)
PROFILES = [TokenProfile(True, 6, 3, 0), TokenProfile(True, 4, 2, 1), TokenProfile(False, 4, 2, 0)]


@pytest.fixture(scope="module", params=["unigram", "bpe", "wordpiece"])
def tokenizer(request: pytest.FixtureRequest) -> Tokenizer:
    return learn(english(), kind=request.param, size=110)


def _resegmented(
    tokenizer: Tokenizer, text: str, seed: int, rate: float = 0.5, profiles: list[TokenProfile] = PROFILES
) -> tuple[list[int], Resegmentation]:
    tokens = tokenizer.encode(text)
    return tokens, MatchedResegmenter(tokenizer, profiles, rate)(tokens, np.random.default_rng(seed))


def _entries(tokenizer: Tokenizer, result: Resegmentation) -> list[Entry | None]:
    size = len(tokenizer)
    return [tokenizer.entries[t] if t < size else result.new[t - size].entry for t in result.tokens]


def _words(entries: list[Entry | None]) -> list[str]:
    words: list[str] = []
    for entry in entries:
        if entry is not None and entry.word_initial:
            words.append(entry.surface)
        elif entry is not None and words:
            words[-1] += entry.surface
    return words


@pytest.mark.parametrize("seed", range(10))
def test_words_are_spelled_as_before_and_spans_are_the_smallest(tokenizer: Tokenizer, seed: int) -> None:
    tokens, result = _resegmented(tokenizer, TEXT[seed], seed)
    before, after = [tokenizer.entries[t] for t in tokens], _entries(tokenizer, result)
    assert _words(after) == _words(before)
    one, two = (np.cumsum([1 if e is None else len(e.surface) for e in each]).tolist() for each in (before, after))
    agreed = sorted(set(one) & set(two))
    assert [one[span.original[1] - 1] for span in result.spans] == agreed
    assert [two[span.resegmented[1] - 1] for span in result.spans] == agreed
    begins = [(0, 0), *((span.original[1], span.resegmented[1]) for span in result.spans)]
    assert [(span.original[0], span.resegmented[0]) for span in result.spans] == begins[:-1]


# Whether a token begins a word, its subwords and its hyperwords.
Kind: TypeAlias = tuple[bool, int | None, int | None]


def test_simulated_tokens_are_like_the_profiles(tokenizer: Tokenizer) -> None:
    numbers: dict[Kind, int] = {(p.word_initial, p.subwords, p.hyperwords): p.characters for p in PROFILES}
    met: Counter[Kind] = Counter()
    for seed, text in enumerate(TEXT):
        for token in _resegmented(tokenizer, text, seed)[1].new:
            kind = (token.entry.word_initial, token.subwords, token.hyperwords)
            assert abs(len(token.entry.surface) - numbers[kind]) <= 1
            met[kind] += 1
    assert set(met) == set(numbers)
    assert min(met.values()) >= 5


def test_a_token_of_the_vocabulary_may_be_treated_as_new() -> None:
    tokenizer = learn(english(), kind="unigram", size=140)
    profiles = [TokenProfile(True, 6, 3, 0)]
    new = {t for seed, text in enumerate(TEXT) for t in _resegmented(tokenizer, text, seed, 1.0, profiles)[1].new}
    assert any(token.entry in tokenizer.ids for token in new)


def test_there_are_nearly_as_many_as_the_rate_says(tokenizer: Tokenizer) -> None:
    """A sentence may have no stretch for a profile; here most have one."""
    profiles = [TokenProfile(i, n, min(n, 2), 0) for i in (True, False) for n in (2, 3, 4, 5)]
    drawn, size = [], len(tokenizer)
    for seed, text in enumerate(TEXT):
        tokens, result = _resegmented(tokenizer, text, seed, 0.1, profiles)
        ordinary = sum(tokenizer.entries[token] is not None for token in tokens)
        drawn.append(sum(token >= size for token in result.tokens) / ordinary)
    assert 0.06 < fmean(drawn) < 0.12


def test_what_is_drawn_depends_on_the_generator_alone(tokenizer: Tokenizer) -> None:
    assert _resegmented(tokenizer, TEXT[0], 1) == _resegmented(tokenizer, TEXT[0], 1)
    assert len({tuple(_resegmented(tokenizer, TEXT[0], seed)[1].tokens) for seed in range(10)}) > 1


def test_a_rate_of_zero_changes_nothing(tokenizer: Tokenizer) -> None:
    tokens, result = _resegmented(tokenizer, TEXT[0], 0, 0.0)
    assert (result.tokens, result.new) == (tokens, [])
