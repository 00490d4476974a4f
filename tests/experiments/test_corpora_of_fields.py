"""An experiment whose upstream text is not parallel and whose task's text is of documents, up to the report."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from small_experiments import TINY, finish
from subgraft.base.errors import UserError
from subgraft.config.experiment import Experiment
from subgraft.config.loading import load
from subgraft.data.text.corpus import Corpus
from subgraft.experiments.pipeline import Pipeline
from toys import english, german

CORPORA = """\
  upstream: {plain: {folder: mono, languages: [en, de]}}
  downstream: {records: {folder: manual, document: document, fields: {en: {}, de: {}}}}
"""
FOLDERS = """\
  upstream: {folder: upstream}
  downstream: {folder: downstream}
"""


def written(place: Path) -> Path:
    (place / "mono").mkdir()
    for language, lines in (("en", english(120, 1)), ("de", german(90, 1))):
        (place / "mono" / f"{language}.txt").write_text("".join(f"{line}\n" for line in lines))
    (place / "manual").mkdir()
    for split, size in (("train", 12), ("dev", 1), ("test", 1)):
        documents = [
            {"document": f"{split} {at}", "en": english(5, at + 3), "de": german(5, at + 3)} for at in range(size)
        ]
        text = "".join(json.dumps(document) + "\n" for document in documents)
        (place / "manual" / f"{split}.jsonl").write_text(text)
    config = place / "config.yaml"
    config.write_text(TINY.replace(FOLDERS, CORPORA))
    return config


def test_a_model_denoises_texts_and_translates_documents(tmp_path: Path) -> None:
    changes = ("model.family=mbart", "upstream.objectives=[{kind: denoising}]", "pretrain.epochs=1")
    pipeline, store = finish(written(tmp_path), *changes, "upstream.vocabulary.size=70")
    upstream, downstream = (
        Corpus.open(store.path(step)) for step in (pipeline.inputs.upstream_corpus, pipeline.inputs.downstream_corpus)
    )
    assert not upstream.aligned
    assert upstream.size("train", "source") != upstream.size("train", "target")
    assert downstream.counts["train"]["documents"] == 12
    assert (store.path(pipeline.report) / "report.md").is_file()


def test_texts_that_are_not_parallel_are_nothing_to_translate(tmp_path: Path) -> None:
    config = written(tmp_path)
    with pytest.raises(UserError, match=r"corpora\.upstream: texts that are not parallel, where pairs are needed"):
        _ = Pipeline(load(config, Experiment, ()), tmp_path).report
