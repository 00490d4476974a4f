"""Instances of mBART's pretraining (Liu et al., TACL 2020, section 2.2), through the corpus and the objective."""

from __future__ import annotations

from collections import Counter
from functools import cache
from itertools import chain
from typing import Any

import numpy as np
import pytest
import torch
from transformers import MBartForConditionalGeneration

from subgraft.config.corpora import Cleaning, Languages
from subgraft.config.training import TrainingSettings
from subgraft.data.sources.corpus_builder import build
from subgraft.data.sources.registry import CorpusSource
from subgraft.data.text.corpus import Corpus
from subgraft.modeling.bundle import Bundle
from subgraft.training.objectives.compute.denoising import denoise
from subgraft.training.objectives.compute.interface import ObjectiveInputs
from subgraft.training.objectives.compute.seq2seq import Seq2SeqBatch, Seq2SeqObjective
from subgraft.training.objectives.denoising import DenoisingSettings
from subgraft.training.schedule import data_plan
from toys import SHAPE, build_mbart, english, german, multilingual_tokenizer

LIMIT = 40
TEXTS = {"en": [english(9, seed) for seed in range(12)], "de": [german(7, seed) for seed in range(3)]}
LANGUAGES = {"en": "en_XX", "de": "de_DE"}


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Corpus:
    """Documents of both languages, as chapters of verses."""
    folder = tmp_path_factory.mktemp("verses")
    for language, documents in TEXTS.items():
        lines = [
            f"b.MAT.{chapter}.{verse}\t{text}"
            for chapter, verses in enumerate(documents, 1)
            for verse, text in enumerate(verses, 1)
        ]
        (folder / f"{language}.tsv").write_text("\n".join(lines) + "\n", encoding="utf-8")
    verses = {"folder": str(folder), "translations": {code: code for code in TEXTS}, "aligned": False}
    return build(CorpusSource.model_validate({"verses": verses}), None, Cleaning(deduplicate=False), folder / "out")


@cache
def bundle() -> Bundle:
    tokenizer = multilingual_tokenizer()
    model = build_mbart(tokenizer, seed=1, **SHAPE | {"dropout": 0.0})
    return Bundle(model.eval(), tokenizer, tokenizer)


def objective(corpus: Corpus, alpha: float | None = None, **settings: Any) -> Seq2SeqObjective:
    training = TrainingSettings(max_steps=1, batch_size=200, max_length=LIMIT, learning_rate=1e-3, warmup_steps=1)
    languages = Languages(source="en", target="de")
    request = ObjectiveInputs(bundle(), corpus, languages, training, seed=1, language_exponent=alpha)
    return denoise(DenoisingSettings(**settings), request)


def epoch_of(data: Seq2SeqObjective, epoch: int) -> list[Seq2SeqBatch]:
    plan = data_plan(data, TrainingSettings(max_steps=1, batch_size=200, learning_rate=1e-3, warmup_steps=1), 1)
    return [data.batch(indices, epoch) for indices in plan.epoch(epoch)]


def rows(batches: list[Seq2SeqBatch], name: str) -> list[list[int]]:
    """Unpadded rows."""
    pad = multilingual_tokenizer().special["pad"]
    return [
        [token for token in row if token not in (pad, -100)] for each in batches for row in getattr(each, name).tolist()
    ]


@pytest.mark.parametrize("noises", [{}, {"infilling": 0.35, "permutation": 1.0}])
def test_an_instance_ends_with_the_one_code_of_its_language_on_both_sides(
    corpus: Corpus, noises: dict[str, float]
) -> None:
    """Whatever the noise: the end and the code after it are never masked, and stay last."""
    tokenizer = multilingual_tokenizer()
    codes = set(tokenizer.languages.values())
    for batch in epoch_of(objective(corpus, noises=noises), 0):
        pairs = zip(rows([batch], "input_ids"), rows([batch], "labels"), strict=True)
        for source, target in pairs:
            assert source[-2:] == target[-2:] and source[-2] == tokenizer.special["eos"]
            assert [token for token in source if token in codes] == [source[-1]]
            assert [token for token in target if token in codes] == [target[-1]]
            assert max(len(source), len(target)) <= LIMIT
        assert batch.decoder_input_ids[:, 0].tolist() == [target[-1] for target in rows([batch], "labels")]


def test_blocks_are_the_documents_sentences_in_order_and_cross_none(corpus: Corpus) -> None:
    """Split at </s>, the targets of an epoch are the text, and each block is a stretch of one document."""
    tokenizer = multilingual_tokenizer()
    end, restored = tokenizer.special["eos"], Counter[str]()
    for target in rows(epoch_of(objective(corpus), 0), "labels"):
        (code,) = (name for name, code in LANGUAGES.items() if tokenizer.languages[code] == target[-1])
        ends = [place for place, token in enumerate(target) if token == end]
        sentences = [
            tokenizer.decode(target[begin + 1 : stop]) for begin, stop in zip([-1, *ends[:-1]], ends, strict=True)
        ]
        restored.update(sentences)
        assert any(
            sentences == document[at : at + len(sentences)] for document in TEXTS[code] for at in range(len(document))
        )
    assert restored == Counter(chain.from_iterable(chain(*TEXTS.values())))


def test_transformers_has_the_same_loss_for_our_inputs_and_labels(corpus: Corpus) -> None:
    data, model = objective(corpus), bundle().model
    assert isinstance(model, MBartForConditionalGeneration)
    loss = data.loss(0.0).eval()
    for batch in epoch_of(data, 0)[:5]:
        with torch.no_grad():
            ours = loss(batch)["loss"] / batch.counts["loss"]
            inputs = {name: getattr(batch, name) for name in ("input_ids", "attention_mask", "decoder_input_ids")}
            theirs = model(**inputs, labels=batch.labels).loss
        assert float(ours) == pytest.approx(float(theirs), rel=1e-6)


def test_languages_are_drawn_alike_and_each_time_with_other_noise(corpus: Corpus) -> None:
    data = objective(corpus, alpha=0.0)
    sources, targets = (rows(epoch_of(data, 0), name) for name in ("input_ids", "labels"))
    shares = Counter(target[-1] for target in targets)
    assert len(set(shares.values())) == 1 and len(shares) == 2
    german_code = multilingual_tokenizer().languages["de_DE"]
    again = [(tuple(s), tuple(t)) for s, t in zip(sources, targets, strict=True) if t[-1] == german_code]
    assert len({target for _, target in again}) < len(again), "German blocks come more than once"
    assert len(set(again)) > 0.9 * len(again), "a block that comes again has another noise"


def test_without_an_exponent_an_epoch_is_the_text_once(corpus: Corpus) -> None:
    data = objective(corpus)
    assert data.draws is None
    assert sum(len(batch.labels) for batch in epoch_of(data, 3)) == len(data.lengths)


def test_sentences_that_do_not_fit_are_cut_and_counted(corpus: Corpus) -> None:
    assert objective(corpus).truncated == 0
    tokens = multilingual_tokenizer().encode_batch([*chain.from_iterable(chain(*TEXTS.values()))])
    short = objective(corpus, block_tokens=10)
    assert short.truncated == sum(len(sentence) > 8 for sentence in tokens) > 0
    assert np.max(short.lengths) == 10
