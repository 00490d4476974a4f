from __future__ import annotations

from itertools import islice, product
from pathlib import Path

import numpy as np
import pytest
import torch

from subgraft.config.corpora import Languages
from subgraft.config.initialisers import ResegmentationSettings
from subgraft.config.settings_base import NoiseName, SideName
from subgraft.data.text import reading
from subgraft.embeddings.generators.generator import Generator
from subgraft.embeddings.generators.generator_loss import GeneratorLoss
from subgraft.embeddings.generators.simulation import Simulator
from subgraft.subwords.vocabulary.learn import learn
from subgraft.subwords.vocabulary.tokenizer import Tokenizer
from subgraft.subwords.vocabulary.words import WordBoundaries
from subgraft.training.objectives.compute.denoising import Denoising
from subgraft.training.objectives.compute.interface import Concatenation
from subgraft.training.objectives.compute.seq2seq import Seq2SeqView
from subgraft.training.objectives.denoising import DenoisingSettings
from toys import SHAPE, build_mbart, german, mbart_blocks, sequence_format

LINES = german(200)
Noises = dict[NoiseName, float]


@pytest.fixture(scope="module")
def tokenizer() -> Tokenizer:
    return learn(LINES, kind="unigram", size=100, mask=True, languages=("en_XX", "de_DE"))


def _denoising(tokenizer: Tokenizer, noises: Noises | None = None, seed: int = 1, limit: int = 120) -> Denoising:
    settings = DenoisingSettings() if noises is None else DenoisingSettings(noises=noises)
    return Denoising(mbart_blocks(LINES, tokenizer, "de", limit), settings, seed)


def test_targets_are_blocks_that_end_in_the_language(tokenizer: Tokenizer) -> None:
    objective, end, code = _denoising(tokenizer), tokenizer.special["eos"], tokenizer.languages["de_DE"]
    examples = [objective.example(index, epoch=0) for index in range(len(objective))]
    assert all(example.start == code for example in examples)
    assert all(example.target[-2:] == example.source[-2:] == [end, code] for example in examples)
    assert sum(example.target.count(end) for example in examples) == len(LINES)
    assert " ".join(tokenizer.decode(example.target) for example in examples) == " ".join(LINES)


@pytest.mark.parametrize("most", [120, 40])
def test_blocks_hold_the_sentences_that_fit(tokenizer: Tokenizer, most: int) -> None:
    lengths = _denoising(tokenizer, limit=most).lengths
    sentence = max(len(tokens) for tokens in tokenizer.encode_batch(LINES)) + 1
    assert lengths.max() <= most
    assert lengths[:-1].min() > most - sentence


def test_a_sentence_longer_than_a_block_is_cut_to_it(tokenizer: Tokenizer) -> None:
    objective = Denoising(mbart_blocks(LINES[:6], tokenizer, "de", 6), DenoisingSettings(), seed=1)
    assert objective.lengths.tolist() == [6] * 6
    targets = [objective.example(index, 0).target for index in range(6)]
    assert [target[:4] for target in targets] == [tokens[:4] for tokens in tokenizer.encode_batch(LINES[:6])]


def test_without_noise_the_source_is_the_target(tokenizer: Tokenizer) -> None:
    objective = _denoising(tokenizer, {})
    example = objective.example(0, epoch=0)
    assert example.source == example.target


def test_sentences_of_a_block_are_permuted_in_the_source_alone(tokenizer: Tokenizer) -> None:
    example = _denoising(tokenizer, {"permutation": 1.0}).example(0, epoch=0)
    assert example.source != example.target
    assert sorted(example.source) == sorted(example.target)


def test_realised_noise_is_the_stated_one(tokenizer: Tokenizer) -> None:
    _has_the_papers_noise(_denoising(tokenizer), tokenizer, epochs=6)


@pytest.mark.parametrize("language", ["en", "zh"])
@pytest.mark.parametrize("block_tokens", [512, 24])
def test_real_text_has_the_papers_noise(mirror: Path, bilingual: Tokenizer, language: str, block_tokens: int) -> None:
    """Chinese has no white space: where words are taken from that, next to nothing is masked."""
    lines = _real(mirror, language)[:3000]
    blocks = mbart_blocks(lines, bilingual, language, block_tokens)
    _has_the_papers_noise(Denoising(blocks, DenoisingSettings(), seed=1), bilingual)


@pytest.fixture(scope="module")
def bilingual(mirror: Path) -> Tokenizer:
    text = _real(mirror, "en") + _real(mirror, "zh")
    return learn(text, kind="unigram", size=5000, byte_fallback=True, mask=True, languages=("en_XX", "zh_CN"))


def _real(mirror: Path, language: str) -> list[str]:
    return list(islice(reading.lines(mirror / "en-zh" / "tatoeba" / f"train.{language}.gz"), 8000))


def _has_the_papers_noise(objective: Denoising, tokenizer: Tokenizer, epochs: int = 1) -> None:
    """35 % of the words, and nearly 3.5 of them to a mask where blocks are long."""
    boundaries, mask = WordBoundaries.of(tokenizer), tokenizer.special["mask"]
    words, covered, masks = [], [], []
    for index, epoch in product(range(len(objective)), range(epochs)):
        example = objective.example(index, epoch)
        words.append(len(boundaries.words(example.target[: example.target_body])))
        masks.append(example.source.count(mask))
        covered.append(words[-1] - len(boundaries.words(example.source[: example.source_body])) + masks[-1])
    # Each block covers a whole number next to 0.35 of its words: a variance of 1/4 at most.
    assert abs(sum(covered) - 0.35 * sum(words)) <= 4.5 * np.sqrt(len(words) / 4)
    assert max(abs(c - 0.35 * n) for c, n in zip(covered, words, strict=True)) < 1
    # The last span of a block is cut: of draws until `covered`, there are some (covered + rate / 2) / rate.
    spans = sum((c + 1.75) / 3.5 for c in covered)
    assert sum(masks) == pytest.approx(spans, rel=0.06)


def test_noise_is_a_function_of_seed_epoch_and_index(tokenizer: Tokenizer) -> None:
    objective = _denoising(tokenizer)
    assert objective.example(5, 1) == objective.example(5, 1)
    assert objective.example(5, 1).source != objective.example(5, 2).source
    assert objective.example(5, 1).source != _denoising(tokenizer, seed=2).example(5, 1).source


def test_lengths_are_the_targets_which_are_the_longer_side(tokenizer: Tokenizer) -> None:
    objective = _denoising(tokenizer)
    lengths = [len(objective.example(index, 0).target) for index in range(len(objective))]
    assert objective.lengths.tolist() == lengths
    for epoch in range(5):
        assert all(len(objective.example(index, epoch).source) <= length for index, length in enumerate(lengths))


def test_a_concatenation_holds_every_example_of_its_parts(tokenizer: Tokenizer) -> None:
    first, second = _denoising(tokenizer), _denoising(tokenizer, seed=9)
    together = Concatenation([first, second])
    size = len(first)
    assert len(together) == len(together.lengths) == 2 * size
    assert together.example(size - 1, 2) == first.example(size - 1, 2)
    assert together.example(size, 2) == second.example(0, 2)


def test_a_generator_learns_from_an_mbart_s_own_loss(tokenizer: Tokenizer) -> None:
    """Lp of denoising on both sides: finite, and it reaches the generator alone."""
    shape = SHAPE | {"max_positions": 130}
    sides: tuple[SideName, SideName] = ("decoder", "encoder")
    for name in sides:
        model = build_mbart(tokenizer, seed=1, **shape)
        pads = tokenizer.special["pad"], tokenizer.special["pad"]
        settings = ResegmentationSettings(merge_rate=0.5, split_rate=0.3)
        view = Seq2SeqView(_denoising(tokenizer), name, pads)
        simulator = Simulator(view, tokenizer, settings, 10, 1)
        loss = GeneratorLoss(model, Generator("patt", 16), view, 0.5, 0.0, "input")
        sums = loss(simulator.batch(np.arange(6), epoch=0))
        (sums["prediction"] + sums["distillation"]).backward()
        assert torch.isfinite(sums["prediction"]) and sums["distillation"] > 0
        gradient = loss.generator.weight.grad
        assert gradient is not None and gradient.abs().sum() > 0


def test_mbart_receives_the_language_codes(tokenizer: Tokenizer) -> None:
    form = sequence_format({"model_type": "mbart"}, tokenizer, tokenizer, Languages(source="en", target="de"))
    assert form.start == tokenizer.languages["de_DE"]
    assert form.source_ending == (tokenizer.special["eos"], tokenizer.languages["en_XX"])
