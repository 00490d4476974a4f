"""Sampled segmentations against the probabilities of all segmentations, counted out."""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Iterator, Sequence

import numpy as np
import pytest

from subgraft.base.errors import UserError
from subgraft.config.vocabularies import SamplingSettings
from subgraft.subwords.vocabulary.learn import learn
from subgraft.subwords.vocabulary.sampling import BpeDropout, Sampler, UnigramLattice
from subgraft.subwords.vocabulary.tokenizer import Tokenizer
from toys import german, german_tokenizer
from vocabularies import byte_level

DRAWS = 20_000
UNKNOWN = 0
PIECES = {"a": (1, -2.0), "b": (2, -2.5), "ab": (3, -2.2), "ba": (4, -3.0), "aba": (5, -3.1), "abab": (6, -6.0)}


def draws(seed: int = 1) -> Iterator[float]:
    generator = np.random.default_rng(seed)
    while True:
        yield float(generator.random())


def unknown(character: str) -> list[int]:
    return [UNKNOWN]


def segmentations(word: str) -> Iterator[tuple[tuple[int, ...], float]]:
    """Every way to cut the word into pieces, with the sum of their scores."""
    if not word:
        yield (), 0.0
    for piece, (token, score) in PIECES.items():
        if word.startswith(piece):
            for rest, scored in segmentations(word.removeprefix(piece)):
                yield (token, *rest), score + scored


def assert_drawn(counts: Counter[tuple[int, ...]], expected: dict[tuple[int, ...], float]) -> None:
    """Every frequency within five standard errors of its probability; nothing else was drawn."""
    total = counts.total()
    assert set(counts) <= set(expected)
    for ids, probability in expected.items():
        error = math.sqrt(probability * (1 - probability) / total)
        assert counts[ids] / total == pytest.approx(probability, abs=5 * error + 1e-9), ids


@pytest.mark.parametrize("alpha", [0.1, 0.5, 1.0, 3.0])
def test_the_lattice_draws_each_segmentation_with_its_probability(alpha: float) -> None:
    word = "ababa"
    weights = {ids: math.exp(alpha * score) for ids, score in segmentations(word)}
    assert len(weights) == 13
    lattice, numbers = UnigramLattice(PIECES, unknown, alpha), draws()
    counts = Counter(tuple(lattice(word, numbers)) for _ in range(DRAWS))
    assert_drawn(counts, {ids: weight / sum(weights.values()) for ids, weight in weights.items()})


def test_a_character_that_is_not_a_piece_is_unknown() -> None:
    assert UnigramLattice({"a": (1, -1.0)}, unknown, 1.0)("axa", draws()) == [1, UNKNOWN, 1]


def test_merges_are_left_out_with_their_probability() -> None:
    """Of "abc" with merges ab, then abc: the second is possible only once the first was done.

    ab is done unless dropped; then abc likewise: with p = 0.3, 0.3 for a b c, 0.7 · 0.3 for ab c, 0.7 · 0.7 for abc.
    """
    vocabulary = {"a": 1, "b": 2, "c": 3, "ab": 4, "abc": 5}
    cut, numbers = BpeDropout(vocabulary, [("a", "b"), ("ab", "c")], unknown, 0.3), draws()
    counts = Counter(tuple(cut("abc", numbers)) for _ in range(DRAWS))
    assert_drawn(counts, {(1, 2, 3): 0.3, (4, 3): 0.21, (5,): 0.49})


def test_a_dropped_merge_makes_room_for_a_later_one() -> None:
    """Of "abc" with merges ab, then bc: ab with 0.7; else bc unless it was dropped at the same step."""
    vocabulary = {"a": 1, "b": 2, "c": 3, "ab": 4, "bc": 5}
    cut, numbers = BpeDropout(vocabulary, [("a", "b"), ("b", "c")], unknown, 0.3), draws()
    counts = Counter(tuple(cut("abc", numbers)) for _ in range(DRAWS))
    assert_drawn(counts, {(4, 3): 0.7, (1, 5): 0.3 * 0.7, (1, 2, 3): 0.3 * 0.3})


TEXTS = [*german(60, 5), "dankbar  haftx  Ωgarten ΩΩ", "", "</s> dank"]


@pytest.fixture(scope="module")
def bpe() -> Tokenizer:
    return learn(german(), kind="bpe", size=150)


def sampled(tokenizer: Tokenizer, texts: Sequence[str], seed: int = 1, **settings: float) -> list[list[int]]:
    sampler = Sampler(tokenizer, SamplingSettings(**settings))  # type: ignore[arg-type]
    return [sampler.sample(text, np.random.default_rng([seed, i])) for i, text in enumerate(texts)]


def test_bpe_without_dropout_is_the_plain_segmentation(bpe: Tokenizer) -> None:
    plain = [text for text in TEXTS if "</s>" not in text]
    assert sampled(bpe, plain, dropout=0.0) == bpe.encode_batch(plain)


def test_bpe_with_all_merges_dropped_is_characters(bpe: Tokenizer) -> None:
    (ids,) = sampled(bpe, ["dankbar"], dropout=1.0)
    assert [bpe.pieces[i] for i in ids] == list("▁dankbar")


def test_a_great_alpha_is_the_plain_segmentation() -> None:
    """Towards infinity the best segmentation takes all; texts whose best two score the same are left out by size."""
    tokenizer = german_tokenizer()
    plain = [text for text in TEXTS if "</s>" not in text]
    result = zip(sampled(tokenizer, plain, alpha=2000.0), tokenizer.encode_batch(plain), strict=True)
    assert sum(one == other for one, other in result) >= len(plain) - 2


@pytest.mark.parametrize("kind", ["unigram", "bpe"])
def test_samples_spell_the_text_and_depend_on_the_generator_alone(kind: str, bpe: Tokenizer) -> None:
    tokenizer = bpe if kind == "bpe" else german_tokenizer()
    known = german(60, 5)
    first, again, other = (sampled(tokenizer, known, seed, dropout=0.3) for seed in (1, 1, 2))
    assert first == again != other
    assert [tokenizer.decode(ids) for ids in first] == [tokenizer.decode(ids) for ids in tokenizer.encode_batch(known)]
    assert sum(map(len, first)) > sum(map(len, tokenizer.encode_batch(known)))


@pytest.mark.parametrize("kind", ["unigram", "bpe"])
def test_no_special_token_is_ever_drawn_from_text(kind: str, bpe: Tokenizer) -> None:
    tokenizer = bpe if kind == "bpe" else german_tokenizer()
    silent = tokenizer.special_ids - {tokenizer.special["unk"]}
    for seed in range(20):
        for ids in sampled(tokenizer, ["</s> <pad> dank <s>"], seed):
            assert silent.isdisjoint(ids)
            unknown = [i == tokenizer.special["unk"] for i in ids]
            assert not any(one and other for one, other in itertools.pairwise(unknown))


@pytest.fixture(scope="module", params=["unigram", "bpe"])
def in_bytes(request: pytest.FixtureRequest) -> Tokenizer:
    return learn(german(), kind=request.param, size=380, byte_fallback=True)


def test_unknown_characters_are_their_bytes(in_bytes: Tokenizer) -> None:
    """As in the plain segmentation, which a great alpha and no dropout give."""
    texts = [*german(60, 5), "dank(bar", "Ωgarten ΩΩ 中文 🙂", "a\u0301(", "haft x"]
    result = sampled(in_bytes, texts, alpha=2000.0, dropout=0.0)
    same = [one == other for one, other in zip(result, in_bytes.encode_batch(texts), strict=True)]
    assert sum(same) >= len(texts) - 2, "the best two segmentations of a text may score the same"
    assert all(same[60:])
    assert any(set(in_bytes.byte_ids.values()).intersection(ids) for ids in result)


def test_samples_in_bytes_spell_the_text(in_bytes: Tokenizer) -> None:
    texts = ["dank(bar freund", "Ωgarten ΩΩ 中文 🙂", "<0x28>dank <0xE4>"]
    for seed in range(10):
        result = sampled(in_bytes, texts, seed, dropout=0.5)
        assert [in_bytes.decode(ids) for ids in result] == texts
        assert not any(in_bytes.special["unk"] in ids for ids in result)


def test_byte_level_vocabularies_cannot_be_sampled_from() -> None:
    with pytest.raises(UserError, match="only unigram vocabularies and BPE"):
        Sampler(byte_level(german(40), 300), SamplingSettings())


def test_wordpiece_cannot_be_sampled_from() -> None:
    with pytest.raises(UserError, match="only unigram vocabularies and BPE"):
        Sampler(learn(german(), kind="wordpiece", size=120), SamplingSettings())
