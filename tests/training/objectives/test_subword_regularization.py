"""Objectives whose text is segmented again in each epoch."""

from __future__ import annotations

from itertools import groupby
from typing import Any

import pytest

from subgraft.config.corpora import Languages
from subgraft.config.settings_base import SideName
from subgraft.config.vocabularies import SamplingSettings
from subgraft.data.text.encoded import Sequences
from subgraft.training.objectives.compute.denoising import Denoising
from subgraft.training.objectives.compute.subword_regularization import Sampling
from subgraft.training.objectives.compute.translation import Translation
from subgraft.training.objectives.denoising import DenoisingSettings
from toys import (
    english,
    english_tokenizer,
    german,
    german_tokenizer,
    mbart_blocks,
    multilingual_tokenizer,
    sequence_format,
)

PAIRS = list(zip(english(40), german(40), strict=True))
LANGUAGES = Languages(source="en", target="de")


def _translation(seed: int | None = 1, max_length: int = 100, **settings: Any) -> Translation:
    source, target = english_tokenizer(), german_tokenizer()
    form = sequence_format({"model_type": "marian"}, source, target, LANGUAGES)
    sampling = None if seed is None else Sampling(SamplingSettings(**settings), seed)
    return Translation(PAIRS, source, target, form, max_length, sampling=sampling)


def test_an_example_is_a_function_of_seed_epoch_and_index() -> None:
    first, again = _translation(), _translation()
    backwards = {i: again.example(i, epoch=3) for i in reversed(range(40))}
    assert [first.example(i, epoch=3) for i in range(40)] == [backwards[i] for i in range(40)]
    assert any(first.example(i, epoch=4) != backwards[i] for i in range(40))
    assert any(_translation(seed=2).example(i, epoch=3) != backwards[i] for i in range(40))


def test_samples_spell_the_sentences_and_batches_are_those_of_the_plain_text() -> None:
    plain, sampled = _translation(seed=None), _translation()
    assert sampled.lengths.tolist() == plain.lengths.tolist()
    for index, (source, target) in enumerate(PAIRS):
        example = sampled.example(index, epoch=0)
        assert english_tokenizer().decode(example.source) == source
        assert german_tokenizer().decode(example.target) == target


@pytest.mark.parametrize("side", ["encoder", "decoder"])
def test_only_the_sides_that_are_named_are_sampled(side: SideName) -> None:
    plain, sampled = _translation(seed=None), _translation(sides=(side,), alpha=0.05)
    pairs = [(plain.example(i, 0), sampled.example(i, 0)) for i in range(40)]
    assert any(one.source != other.source for one, other in pairs) == (side == "encoder")
    assert any(one.target != other.target for one, other in pairs) == (side == "decoder")


def test_a_sample_without_room_gives_way_to_the_plain_segmentation() -> None:
    longest = int(_translation(seed=None).lengths.max())
    plain, sampled = _translation(None, longest), _translation(1, longest, alpha=0.01)
    assert plain.truncated == sampled.truncated == 0
    pairs = [(plain.example(i, 0), sampled.example(i, 0)) for i in range(40)]
    assert all(len(other.target) <= longest and len(other.source) <= longest for _, other in pairs)
    assert {one.target == other.target for one, other in pairs} == {True, False}


def test_a_denoised_block_is_segmented_again_before_it_is_noised() -> None:
    tokenizer = multilingual_tokenizer()
    noise = DenoisingSettings(noises={})

    def objective(sampling: Sampling | None) -> Denoising:
        lines = [target for _, target in PAIRS]
        return Denoising(mbart_blocks(lines, tokenizer, "de", 400, sampling=sampling), noise, 1)

    plain, sampled = objective(None), objective(Sampling(SamplingSettings(), 1))
    examples = [sampled.example(index, 0) for index in range(len(sampled))]
    assert all(example.source == example.target for example in examples)
    assert examples[0].target != plain.example(0, 0).target
    spelled = " ".join(tokenizer.decode(example.target) for example in examples)
    assert spelled == " ".join(target for _, target in PAIRS)
    assert examples[0] == objective(Sampling(SamplingSettings(), 1)).example(0, 0) != sampled.example(0, 1)


def test_samples_fill_the_blocks_and_few_give_way_for_want_of_room() -> None:
    tokenizer, lines = multilingual_tokenizer(), german(600)
    sampling = Sampling(SamplingSettings(), 1)
    blocks = mbart_blocks(lines, tokenizer, "de", 120, sampling=sampling)
    sampled = Denoising(blocks, DenoisingSettings(), 1)
    targets = [sampled.example(index, 0).target for index in range(len(sampled))]
    assert max(map(len, targets)) <= 120
    assert " ".join(map(tokenizer.decode, targets)) == " ".join(lines)
    end = tokenizer.special["eos"]
    sentences = [sentence for target in targets for sentence in _split(target[:-2], end)]
    resampled = sampling.of("decoder", lines, tokenizer, Sequences.of(tokenizer.encode_batch(lines), 118), 118)
    assert sum(sentence != resampled.at(i, 0) for i, sentence in enumerate(sentences)) < 0.1 * len(lines)


def _split(tokens: list[int], separator: int) -> list[list[int]]:
    return [list(run) for is_end, run in groupby(tokens, lambda token: token == separator) if not is_end]
