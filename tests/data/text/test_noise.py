from __future__ import annotations

import math
from collections import Counter

import numpy as np
import pytest
from scipy.stats import chisquare

from subgraft.config.settings_base import NoiseName
from subgraft.data.text.noise import Noise, infill, mask_and_delete, permute, rotate, span_lengths
from toys import english, masking_tokenizer

MASK = -1
# Standard deviations of a mean that a test allows.
WIDE = 4.5


def _words(count: int, generator: np.random.Generator) -> list[list[int]]:
    """Words of one to three tokens, all tokens different."""
    cuts = np.cumsum(generator.integers(1, 4, size=count))
    return [tokens.tolist() for tokens in np.split(np.arange(cuts[-1]), cuts[:-1])]


def _noised(words: int, generator: np.random.Generator, share: float = 0.35, rate: float = 3.5) -> list[int]:
    return infill([[word] for word in range(words)], MASK, share, rate, generator)


def _masks_expected(words: int, rate: float) -> float:
    """Poisson draws until their sum is `words`: renewal, N(w) = 1 + sum over lengths below w of p N(w - length)."""
    chances = [math.exp(-rate) * rate**k / math.factorial(k) for k in range(words)]
    expected = [0.0]
    for left in range(1, words + 1):
        rest = sum(chances[length] * expected[left - length] for length in range(1, left))
        expected.append((1 + rest) / (1 - chances[0]))
    return expected[words]


def test_words_stay_or_go_as_a_whole_and_in_order() -> None:
    generator = np.random.default_rng(0)
    for _ in range(200):
        words = _words(30, generator)
        selected = [token for token in infill(words, MASK, 0.35, 3.5, generator) if token != MASK]
        left = [word for word in words if word[0] in selected]
        assert selected == [token for word in left for token in word]
        assert len(words) - len(left) in (10, 11)


@pytest.mark.parametrize("words", [1, 2, 3, 5, 8, 350])
@pytest.mark.parametrize("share", [0.1, 0.35, 0.9])
def test_the_stated_share_is_covered_in_expectation_however_short_the_text(words: int, share: float) -> None:
    generator, trials = np.random.default_rng([words, 7]), 4000 if words < 100 else 200
    covered = [words - sum(t != MASK for t in _noised(words, generator, share=share)) for _ in range(trials)]
    wanted = share * words
    assert {math.floor(wanted), math.ceil(wanted)} >= set(covered)
    beyond = wanted - math.floor(wanted)
    assert abs(np.mean(covered) - wanted) <= WIDE * math.sqrt(beyond * (1 - beyond) / trials) + 1e-9


@pytest.mark.parametrize(("words", "rate"), [(6, 3.5), (20, 3.5), (122, 3.5), (122, 1.5)])
def test_span_lengths_are_poisson_until_the_last(words: int, rate: float) -> None:
    """The mean number of masks is that of renewal theory; of 122 words at 3.5, that makes 3.45 words each."""
    generator, trials = np.random.default_rng([words, 8]), 4000
    drawn = [span_lengths(words, rate, generator) for _ in range(trials)]
    assert all(sum(lengths) == words for lengths in drawn)
    masks = np.array([len(lengths) for lengths in drawn])
    assert abs(masks.mean() - _masks_expected(words, rate)) <= WIDE * masks.std() / math.sqrt(trials)


def test_spans_of_the_papers_noise_are_nearly_as_long_as_it_says() -> None:
    assert 122 / _masks_expected(122, 3.5) == pytest.approx(3.5, abs=0.06)


@pytest.mark.parametrize(("words", "rate"), [(20, 3.5), (122, 3.5), (122, 1.5)])
def test_insertions_have_the_share_of_poissons_zeros(words: int, rate: float) -> None:
    generator, trials = np.random.default_rng([words, 9]), 6000
    drawn = [span_lengths(words, rate, generator) for _ in range(trials)]
    surplus = np.array([lengths.count(0) - math.exp(-rate) * len(lengths) for lengths in drawn])
    assert abs(surplus.mean()) <= WIDE * surplus.std() / math.sqrt(trials)
    assert surplus.std() > 0


def test_a_noised_text_is_never_longer_than_the_text() -> None:
    """Positions of a model, and the lengths that batches are made by, hold for the source too."""
    generator = np.random.default_rng(3)
    lengths = [(words, len(_noised(words, generator, rate=0.2))) for words in range(12) for _ in range(300)]
    assert all(noised <= words for words, noised in lengths)
    # So short a span is mostly an insertion: the limit is met.
    assert sum(noised == words > 0 for words, noised in lengths) > 2000


def test_every_arrangement_of_spans_is_as_likely_as_any_other() -> None:
    generator, trials = np.random.default_rng(4), 6000
    one_span_of_two = {"share": 0.5, "rate": 60.0}
    drawn = Counter(tuple(_noised(4, generator, **one_span_of_two)) for _ in range(trials))
    assert set(drawn) == {(MASK, 2, 3), (0, MASK, 3), (0, 1, MASK)}
    assert all(abs(count / trials - 1 / 3) <= WIDE * math.sqrt(2 / 9 / trials) for count in drawn.values())


def test_nothing_is_masked_at_rate_zero_and_all_at_rate_one() -> None:
    generator = np.random.default_rng(2)
    assert _noised(20, generator, share=0.0) == list(range(20))
    assert set(_noised(20, generator, share=1.0)) == {MASK}
    assert _noised(0, generator) == []


def test_permutation_keeps_every_sentence() -> None:
    sentences = [[1, 2], [3], [4, 5, 6], [7]]
    orders = {tuple(map(tuple, permute(sentences, np.random.default_rng(seed)))) for seed in range(40)}
    assert len(orders) > 10
    assert all(sorted(order) == sorted(map(tuple, sentences)) for order in orders)


def test_masked_tokens_are_a_fixed_count_at_uniform_places_and_all_others_stay() -> None:
    generator, tokens, trials = np.random.default_rng(5), list(range(20)), 3000
    places: Counter[int] = Counter()
    for _ in range(trials):
        noised = mask_and_delete(tokens, MASK, 0.15, 0.0, generator)
        assert all(token in (place, MASK) for place, token in enumerate(noised))
        assert noised.count(MASK) == 3
        places.update(place for place, token in enumerate(noised) if token == MASK)
    # Three of twenty at a time: the statistic is (20 - 3) / (20 - 1) of that of independent draws.
    statistic = chisquare([places[place] for place in tokens]).statistic * 19 / 17
    assert statistic < 43.8, "the 0.999 quantile of 19 degrees of freedom"


def test_deletion_leaves_no_mark() -> None:
    generator, tokens, trials = np.random.default_rng(6), list(range(20)), 3000
    absent: Counter[int] = Counter()
    for _ in range(trials):
        noised = mask_and_delete(tokens, MASK, 0.0, 0.25, generator)
        assert noised == sorted(noised) and len(noised) == 15 and set(noised) < set(tokens)
        absent.update(set(tokens) - set(noised))
    assert chisquare([absent[token] for token in tokens]).statistic * 19 / 15 < 43.8


def test_masking_and_deletion_take_different_tokens() -> None:
    generator = np.random.default_rng(7)
    noised = [mask_and_delete(list(range(10)), MASK, 0.3, 0.7, generator) for _ in range(50)]
    assert noised == [[MASK] * 3] * 50
    assert mask_and_delete([], MASK, 0.5, 0.5, generator) == []
    lengths = {len(mask_and_delete([1, 2, 3], MASK, 0.0, 0.5, generator)) for _ in range(50)}
    assert lengths == {1, 2}, "a share of a short text is rounded up or down at random"


def test_rotation_is_cyclic_and_begins_with_any_token_equally_often() -> None:
    generator, tokens, trials = np.random.default_rng(8), list(range(16)), 4000
    firsts: Counter[int] = Counter()
    for _ in range(trials):
        rotated = rotate(tokens, generator)
        firsts[rotated[0]] += 1
        assert rotated[16 - rotated[0] :] + rotated[: 16 - rotated[0]] == tokens
    assert chisquare([firsts[token] for token in tokens]).pvalue > 1e-3
    assert rotate([], generator) == []


@pytest.mark.parametrize("share", [0.25, 1.0])
@pytest.mark.parametrize("name", ["permutation", "rotation"])
def test_noises_of_blocks_apply_to_their_share(name: NoiseName, share: float) -> None:
    sentences, generator, trials = [[10 + place] for place in range(40)], np.random.default_rng(9), 800
    noise = Noise({name: share}, 3.5, masking_tokenizer())
    original = [token for sentence in sentences for token in sentence]
    changed = sum(noise(sentences, (), generator) != original for _ in range(trials))
    # A rotation by nothing changes nothing.
    expected = share * (39 / 40 if name == "rotation" else 1)
    assert abs(changed / trials - expected) <= WIDE * math.sqrt(expected * (1 - expected) / trials) + 1e-9


def test_noises_together_are_undone_one_after_another() -> None:
    """All five: rotated back to its first sentence, the text has the masks and the gaps of each noise."""
    tokenizer, generator = masking_tokenizer(), np.random.default_rng(10)
    sentences, mask = tokenizer.encode_batch(english(12)), tokenizer.special["mask"]
    every: dict[NoiseName, float] = {"masking": 0.1, "deletion": 0.1, "permutation": 1, "rotation": 1}
    size = sum(map(len, sentences))
    noised = Noise(every, 3.5, tokenizer)(sentences, (), generator)
    hidden, gone = noised.count(mask), size - len(noised)
    assert abs(hidden - 0.1 * size) < 1 and abs(gone - 0.1 * size) < 1
    remaining = Counter(token for token in noised if token != mask)
    assert remaining <= Counter(token for sentence in sentences for token in sentence)
    with_spans = Noise({**every, "infilling": 0.3}, 3.5, tokenizer)(sentences, (), generator)
    assert len(with_spans) < len(noised) and with_spans.count(mask) > 0
    plain = Noise({}, 3.5, tokenizer)(sentences, (2,), generator)
    assert plain == [token for sentence in sentences for token in (2, *sentence)][1:]
