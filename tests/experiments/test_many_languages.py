"""Pretraining on a corpus of as many languages as it names, none of them translated."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from small_experiments import TINY, finish, written
from subgraft.base.errors import UserError
from subgraft.config.experiment import Experiment
from subgraft.config.loading import load
from subgraft.data.text.corpus import Corpus
from subgraft.experiments.pipeline import Pipeline
from subgraft.subwords.vocabulary.tokenizer import Tokenizer
from toys import english, german

MANY = (
    "corpora={upstream: {texts: {en: {files: {train: [a.en]}}, de: {files: {train: [a.de]}},"
    " nl: {files: {train: [a.nl]}}}}, downstream: {folder: downstream}}",
    "model.family=mbart",
    "upstream.languages=all",
    "upstream.objectives=[{kind: denoising}]",
    "pretrain.epochs=1",
)


def place(folder: Path) -> Path:
    config = written(folder, TINY)
    for code, lines in (("en", english(60, 3)), ("de", german(40, 4)), ("nl", german(30, 5))):
        (folder / f"a.{code}").write_text("".join(f"{line}\n" for line in lines))
    return config


def test_every_language_has_its_code_and_is_denoised(tmp_path: Path) -> None:
    pipeline, store = finish(place(tmp_path), *MANY)
    corpus = Corpus.open(store.path(pipeline.inputs.upstream_corpus))
    assert {language: len(lines) for language, lines in corpus.texts("train")} == {"en": 60, "de": 40, "nl": 30}
    tokenizer = Tokenizer.load(store.path(pipeline.models.pretrained))
    assert set(tokenizer.languages) == {"en_XX", "de_XX", "nl_XX"}
    shown = json.loads((store.path(pipeline.report) / "table.json").read_text())
    assert shown["rows"] and pipeline.inputs.upstream_corpus.stage.languages is None


def test_a_vocabulary_of_all_languages_is_another_one_than_that_of_two(tmp_path: Path) -> None:
    config = place(tmp_path)
    every = Pipeline(load(config, Experiment, MANY), tmp_path)
    two = Pipeline(load(config, Experiment, [change for change in MANY if "languages" not in change]), tmp_path)
    assert every.models.pretrained.fingerprint != two.models.pretrained.fingerprint


@pytest.mark.slow
def test_a_small_language_gets_more_of_a_vocabulary_that_draws_languages_alike(tmp_path: Path) -> None:
    """German and Dutch are made of the same words here, so English has a third of the text, and not nearly half."""
    config = place(tmp_path)
    result = {}
    for exponent in ("null", "0.0"):
        changes = (*MANY, f"upstream.vocabulary={{size: 60, byte_fallback: false, language_exponent: {exponent}}}")
        pipeline, store = finish(config, *changes)
        tokenizer = Tokenizer.load(store.path(pipeline.models.pretrained))
        result[exponent] = sum(map(len, tokenizer.encode_batch(english(60, 3))))
    assert result["0.0"] > result["null"], "English is cut to more pieces where it counts for less"


def test_what_needs_pairs_is_refused(tmp_path: Path) -> None:
    config = place(tmp_path)
    with pytest.raises(UserError, match="translation needs pairs in two languages"):
        load(config, Experiment, ["upstream.languages=all"])
