from __future__ import annotations

import numpy as np

from subgraft.settings.domains import NoiseSettings
from subgraft.text.noise import infill, permute, word_starts

MASK = 99
# Tokens below 50 begin a word, those from 50 on continue one.
WORD_INITIAL = np.arange(100) < 50


def _sentence(words: int, generator: np.random.Generator) -> list[int]:
    tokens: list[int] = []
    for _ in range(words):
        tokens.append(int(generator.integers(0, 50)))
        tokens.extend(generator.integers(50, 90, size=generator.integers(0, 3)).tolist())
    return tokens


def test_words_start_where_a_token_begins_one() -> None:
    assert word_starts([60, 1, 61, 62, 2], WORD_INITIAL) == [0, 1, 4]


def test_the_stated_share_of_words_is_covered_by_whole_words() -> None:
    generator = np.random.default_rng(0)
    covered = total = 0
    for _ in range(300):
        tokens = _sentence(30, generator)
        noised = infill(tokens, WORD_INITIAL, MASK, NoiseSettings(), generator)
        kept = [token for token in noised if token != MASK]
        words_left = sum(WORD_INITIAL[token] for token in kept)
        covered += 30 - int(words_left)
        total += 30
        assert not kept or WORD_INITIAL[kept[0]]
    assert abs(covered / total - 0.35) < 0.02


def test_span_lengths_follow_the_poisson_rate() -> None:
    """Expected words per mask: spans are cut by the budget and by each other, so a little under lambda."""
    generator = np.random.default_rng(1)
    masks = covered = 0
    for _ in range(200):
        tokens = generator.integers(0, 50, size=200).tolist()
        noised = infill(tokens, WORD_INITIAL, MASK, NoiseSettings(), generator)
        masks += noised.count(MASK)
        covered += 200 - sum(token != MASK for token in noised)
    assert 2.6 < covered / masks < 3.5


def test_nothing_is_masked_at_rate_zero_and_all_at_rate_one() -> None:
    generator = np.random.default_rng(2)
    tokens = _sentence(20, generator)
    assert infill(tokens, WORD_INITIAL, MASK, NoiseSettings(mask_share=0.0), generator) == tokens
    assert set(infill(tokens, WORD_INITIAL, MASK, NoiseSettings(mask_share=1.0), generator)) == {MASK}


def test_permutation_keeps_every_sentence() -> None:
    sentences = [[1, 2], [3], [4, 5, 6], [7]]
    orders = {tuple(map(tuple, permute(sentences, np.random.default_rng(seed)))) for seed in range(40)}
    assert len(orders) > 10
    assert all(sorted(order) == sorted(map(tuple, sentences)) for order in orders)
