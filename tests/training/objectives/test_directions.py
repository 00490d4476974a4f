"""Pairs of several directions in one batch: codes, loss, dev scores, and a training that is interrupted."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from subgraft.base.errors import UserError
from subgraft.config.corpora import Languages
from subgraft.config.training import FinetuneSettings
from subgraft.data.synthetic_pairs import write_pairs
from subgraft.data.text.corpus import Corpus
from subgraft.modeling.bundle import Bundle
from subgraft.training.objectives.compute.interface import ObjectiveInputs
from subgraft.training.objectives.compute.translation import Directions, TaskPairs, directions_text
from subgraft.training.objectives.translation import TranslationSettings
from subgraft.training.schedule import data_plan
from toys import english, german, mbart, multilingual_tokenizer

THERE, BACK = Languages(source="en", target="de"), Languages(source="de", target="en")
SETTINGS = FinetuneSettings(
    epochs=1, batch_size=200, learning_rate=0.01, warmup_steps=1, max_length=38, label_smoothing=0.0, dev_sentences=3
)


def corpus(place: Path, languages: Languages, size: int, seed: int) -> Corpus:
    place.mkdir()
    lines = {"en": english(size, seed), "de": german(size, seed)}
    pairs = list(zip(lines[languages.source], lines[languages.target], strict=True))
    return write_pairs({"train": pairs, "dev": pairs[:4]}, languages, {}, place)


def requests(place: Path, bundle: Bundle, sizes: tuple[int, int] = (12, 5)) -> dict[str, ObjectiveInputs]:
    made = {}
    for languages, size in zip((THERE, BACK), sizes, strict=True):
        pairs = corpus(place / languages.name, languages, size, size)
        made[languages.name] = ObjectiveInputs(bundle, pairs, languages, SETTINGS, 1)
    return made


@pytest.fixture
def bundle() -> Bundle:
    model, tokenizer = mbart(), multilingual_tokenizer()
    return Bundle(model, tokenizer, tokenizer)


def test_a_mixed_batch_has_the_loss_of_transformers_own_model_pair_by_pair(tmp_path: Path, bundle: Bundle) -> None:
    """text </s> SOURCE to TARGET text </s>, as MBartForConditionalGeneration is trained: labels end with the code."""
    data = directions_text(TranslationSettings(), requests(tmp_path, bundle), SETTINGS, None)
    assert isinstance(data, Directions) and len(data.lengths) == 17
    tokenizer, indices = multilingual_tokenizer(), np.array([0, 3, 13, 16])
    batch = data.batch(indices, 0)
    ours = data.loss(bundle)(batch)["loss"].item()
    end, codes = tokenizer.special["eos"], tokenizer.languages
    theirs = 0.0
    for index in indices.tolist():
        languages, place = (THERE, index) if index < 12 else (BACK, index - 12)
        source, target = list(Corpus.open(tmp_path / languages.name).pairs("train"))[place]
        both = (codes["en_XX"], codes["de_DE"]) if languages == THERE else (codes["de_DE"], codes["en_XX"])
        read = torch.tensor([[*tokenizer.encode(source), end, both[0]]])
        body = tokenizer.encode(target)
        written, begins = torch.tensor([[*body, end, both[1]]]), torch.tensor([[both[1], *body, end]])
        with torch.no_grad():
            result = bundle.model(input_ids=read, decoder_input_ids=begins, labels=written)
        theirs += result.loss.item() * written.shape[1]
    assert ours == pytest.approx(theirs, rel=1e-6)


def test_dev_scores_are_the_means_of_the_directions_alone(tmp_path: Path, bundle: Bundle) -> None:
    asked = requests(tmp_path, bundle)
    alone = {name: TaskPairs(each, SETTINGS).dev_scores(bundle)() for name, each in asked.items()}
    scores = directions_text(TranslationSettings(), asked, SETTINGS, None).dev_scores(bundle)()
    for score in ("bits_per_character", "bleu", "chrf"):
        assert scores[score] == pytest.approx(sum(each[score] for each in alone.values()) / 2)
        for name, each in alone.items():
            assert scores[f"{name}_{score}"] == pytest.approx(each[score])
    assert alone["en-de"]["bits_per_character"] != alone["de-en"]["bits_per_character"]


def test_pairs_are_drawn_by_the_exponent_of_their_numbers_after_the_limit(tmp_path: Path, bundle: Bundle) -> None:
    few = SETTINGS.model_copy(update={"max_train_examples": 8})
    data = directions_text(TranslationSettings(), requests(tmp_path, bundle), few, 0.0)
    assert isinstance(data, Directions) and data.sizes == {"en-de": 8, "de-en": 5} and data.draws is not None
    assert [len(list(lines)) for lines in data.texts.values()] == [13, 13]
    back = multilingual_tokenizer().languages["en_XX"]
    for epoch in range(3):
        drawn = np.concatenate(list(data_plan(data, few, 1).epoch(epoch)))
        starts = data.batch(drawn, epoch).decoder_input_ids[:, 0]
        assert len(drawn) == 16 and int((starts == back).sum()) == 8


@pytest.mark.parametrize("alpha", [0.0, 0.3, 0.7, 1.0])
def test_the_shares_of_100_000_pairs_in_batches_are_those_of_the_exponent(
    tmp_path: Path, bundle: Bundle, alpha: float
) -> None:
    """p^α / Σ p^α, not multiplied by p again; each number of an epoch's examples is rounded to a whole one."""
    data = directions_text(TranslationSettings(), requests(tmp_path, bundle, (300, 40)), SETTINGS, alpha)
    assert isinstance(data, Directions)
    plan, counts, epoch = data_plan(data, SETTINGS, 1), np.zeros(2), 0
    assert data.draws is not None
    while counts.sum() < 100_000:
        drawn = np.concatenate(list(plan.epoch(epoch)))
        counts += np.bincount([data.draws.at(int(number), epoch).text for number in drawn], minlength=2)
        epoch += 1
    shares = np.array([300, 40]) / 340
    wanted = shares**alpha / (shares**alpha).sum()
    assert np.abs(counts / counts.sum() - wanted).max() < 0.5 / (counts.sum() / epoch)
    again = shares * wanted
    assert alpha == 0 or np.abs(counts / counts.sum() - again / again.sum()).max() > 0.01


def test_one_direction_is_trained_as_a_task_alone(tmp_path: Path, bundle: Bundle) -> None:
    asked = requests(tmp_path, bundle)
    alone = directions_text(TranslationSettings(), {"en-de": asked["en-de"]}, SETTINGS, None)
    assert isinstance(alone, TaskPairs) and "en-de_bleu" not in alone.dev_scores(bundle)()


def test_a_direction_without_pairs_is_refused(tmp_path: Path, bundle: Bundle) -> None:
    with pytest.raises(UserError, match="no training pairs after cleaning") as refused:
        directions_text(TranslationSettings(), requests(tmp_path, bundle, (6, 0)), SETTINGS, None)
    assert refused.value.where == "directions: de-en"
