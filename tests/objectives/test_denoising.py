from __future__ import annotations

import numpy as np
import pytest
import torch

from subgraft.grafting.generator import Generator
from subgraft.grafting.generator_loss import GeneratorLoss
from subgraft.grafting.simulation import Simulator
from subgraft.models.build import build_mbart
from subgraft.models.conditioning import conditioning, language_code
from subgraft.models.sides import side
from subgraft.objectives.denoising import Denoising, word_initial_table
from subgraft.objectives.mixture import Mixture
from subgraft.settings.corpora import Languages
from subgraft.settings.domains import NoiseSettings
from subgraft.settings.initialisers import ResegmentationSettings
from subgraft.vocabulary.learn import learn
from subgraft.vocabulary.tokenizer import Tokenizer
from toys import SHAPE, german

LINES = german(200)


@pytest.fixture(scope="module")
def tokenizer() -> Tokenizer:
    return learn(LINES, kind="unigram", size=100, mask=True, languages=("en_XX", "de_DE"))


def _denoising(tokenizer: Tokenizer, noise: NoiseSettings | None = None, seed: int = 1) -> Denoising:
    code = language_code(tokenizer, "de")
    return Denoising(LINES, tokenizer, code, noise or NoiseSettings(), max_length=120, seed=seed)


def test_targets_are_documents_that_end_in_the_language(tokenizer: Tokenizer) -> None:
    objective, end, code = _denoising(tokenizer), tokenizer.special["eos"], tokenizer.languages["de_DE"]
    assert len(objective) == 50
    example = objective.example(3, epoch=0)
    assert example.start == code
    assert example.target[-2:] == example.source[-2:] == [end, code]
    assert example.target.count(end) == 4
    assert tokenizer.decode(example.target) == " ".join(LINES[12:16])


def test_without_noise_the_source_is_the_target(tokenizer: Tokenizer) -> None:
    objective = _denoising(tokenizer, NoiseSettings(mask_share=0.0, permute_sentences=False))
    example = objective.example(0, epoch=0)
    assert example.source == example.target


def test_realised_corruption_is_the_stated_one(tokenizer: Tokenizer) -> None:
    objective, begins = _denoising(tokenizer), word_initial_table(tokenizer)
    ordinary = begins.copy()
    ordinary[list(tokenizer.special_ids)] = False

    def words(tokens: list[int]) -> int:
        return sum(bool(ordinary[token]) for token in tokens)

    examples = [objective.example(index, epoch) for epoch in range(4) for index in range(len(objective))]
    kept = sum(words(example.source) for example in examples) / sum(words(example.target) for example in examples)
    # A span budget of 0.35 of a sentence's words is rounded to whole words: sentences here have three to six.
    expected = np.mean([round(0.35 * n) / n for n in (3, 4, 5, 6)])
    assert 1.0 - kept == pytest.approx(expected, abs=0.04)


def test_noise_is_a_function_of_seed_epoch_and_index(tokenizer: Tokenizer) -> None:
    objective = _denoising(tokenizer)
    assert objective.example(5, 1) == objective.example(5, 1)
    assert objective.example(5, 1).source != objective.example(5, 2).source
    assert objective.example(5, 1).source != _denoising(tokenizer, seed=2).example(5, 1).source


def test_lengths_are_the_targets(tokenizer: Tokenizer) -> None:
    objective = _denoising(tokenizer)
    lengths = [len(objective.example(index, 0).target) for index in range(len(objective))]
    assert objective.lengths.tolist() == lengths


def test_a_mixture_holds_every_example_of_its_parts(tokenizer: Tokenizer) -> None:
    first, second = _denoising(tokenizer), _denoising(tokenizer, seed=9)
    mixture = Mixture([first, second])
    assert len(mixture) == len(mixture.lengths) == 100
    assert mixture.example(49, 2) == first.example(49, 2)
    assert mixture.example(50, 2) == second.example(0, 2)


def test_a_generator_learns_from_an_mbart_s_own_loss(tokenizer: Tokenizer) -> None:
    """Lp of denoising on both sides: finite, and it reaches the generator alone."""
    shape = SHAPE | {"max_positions": 130}
    for name in ("decoder", "encoder"):
        model = build_mbart(tokenizer, seed=1, **shape)
        pads = (tokenizer.special["pad"],) * 2
        settings = ResegmentationSettings(merge_rate=0.5, split_rate=0.3)
        simulator = Simulator(_denoising(tokenizer), tokenizer, name, settings, 10, 1, pads)  # type: ignore[arg-type]
        sides = {each: side(model, each) for each in ("encoder", "decoder")}  # type: ignore[arg-type]
        loss = GeneratorLoss(model, Generator("patt", 16), sides, name, 0.5, 0.0, "input")  # type: ignore[arg-type]
        sums = loss(simulator.batch(np.arange(6), epoch=0))
        (sums["prediction"] + sums["distillation"]).backward()
        assert torch.isfinite(sums["prediction"]) and sums["distillation"] > 0
        gradient = loss.generator.weight.grad
        assert gradient is not None and gradient.abs().sum() > 0


def test_mbart_is_told_the_languages(tokenizer: Tokenizer) -> None:
    form = conditioning("mbart", tokenizer, tokenizer, Languages(source="en", target="de"))
    assert form.start == tokenizer.languages["de_DE"]
    assert form.source_ending == (tokenizer.special["eos"], tokenizer.languages["en_XX"])
