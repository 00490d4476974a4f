"""Corpora with documents, of sentences made here."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from labelled import write_files
from small_experiments import tiny, written
from subgraft.config.corpora import Cleaning, Languages
from subgraft.config.training import PretrainSettings
from subgraft.data.sources.corpus_builder import build
from subgraft.data.sources.registry import CorpusSource
from subgraft.data.text.corpus import Corpus
from subgraft.modeling.bundle import Bundle
from subgraft.modeling.next_sentence import with_next_sentence
from subgraft.training.objectives.compute.interface import ObjectiveInputs
from subgraft.training.objectives.compute.mixture import MixedLoss, Mixture, objectives_of
from subgraft.training.objectives.masked import MaskedSettings
from subgraft.training.objectives.multitask_masked import MultitaskMaskedSettings
from toys import SHAPE, build_bert, cased_tokenizer, english

ENGLISH = Languages(source="en", target="en")
# Sentences of each document.
SIZES = (7, 12, 5, 9, 1, 14)


def write_documents(folder: Path, sizes: Sequence[int] = SIZES, splits: Sequence[str] = ("train", "dev")) -> Path:
    """Records of English documents of these sizes, for each split."""
    folder.mkdir(parents=True, exist_ok=True)
    for seed, split in enumerate(splits):
        lines = iter(english(sum(sizes), seed=seed + 1))
        records = [
            {"document": f"{split} {number}", "en": [next(lines) for _ in range(size)]}
            for number, size in enumerate(sizes)
        ]
        (folder / f"{split}.jsonl").write_text("".join(json.dumps(each) + "\n" for each in records), encoding="utf-8")
    return folder


def documented_source(folder: Path) -> CorpusSource:
    fields: dict[str, Any] = {"en": {"language": "en"}}
    return CorpusSource.model_validate({"records": {"folder": str(folder), "fields": fields, "document": "document"}})


def documented_corpus(
    folder: Path, sizes: tuple[int, ...] = SIZES, splits: tuple[str, ...] = ("train", "dev")
) -> Corpus:
    """The same as a corpus."""
    write_documents(folder / "source", sizes, splits)
    return build(documented_source(folder / "source"), ENGLISH, Cleaning(deduplicate=False), folder / "corpus")


def request_on(bundle: Bundle, corpus: Corpus, **training: Any) -> ObjectiveInputs:
    fixed = {"max_steps": 4, "learning_rate": 1e-3, "warmup_steps": 1, "precision": "fp32"}
    settings = {**fixed, "batch_size": 300, "max_length": 40, **training}
    return ObjectiveInputs(bundle, corpus, ENGLISH, PretrainSettings.model_validate(settings), seed=1)


RECORDS = "{folder: documents, fields: {en: {language: en}}, document: document}"
SYSTEMS = "[{name: old, vocabulary: upstream}, {name: mean, initialiser: mean}, {name: patt, initialiser: patt}]"


def config(place: Path, upstream: str, **sections: str) -> Path:
    """Classification after a pretraining on documents."""
    source = write_files("classification", place / "labelled", {"train": 60, "dev": 12, "test": 14})
    source["labelled"]["folder"] = "labelled"
    write_documents(place / "documents")
    training = "max_length: 40, precision: fp32"
    inputs = {
        "task": "classification",
        "languages": "{source: en, target: en}",
        "corpora": f"{{upstream: {{records: {RECORDS}}}, downstream: {json.dumps(source)}}}",
        "cleaning": "{drop_held_out: false, deduplicate: false, max_characters: null, max_ratio: null}",
        "upstream": upstream,
        "downstream": "{corpus: downstream, vocabulary: {kind: wordpiece, size: 110}}",
        "model": "{family: bert, d_model: 16, layers: 1, attention_heads: 2, ffn_dim: 16, max_positions: 64}",
        "pretrain": f"{{epochs: 2, batch_size: 200, {training}, dev_sentences: 20}}",
        "generator_training": f"{{max_steps: 2, batch_size: 200, {training}}}",
        "finetune": f"{{epochs: 1, max_steps: 2, batch_size: 200, {training}, dev_sentences: 8}}",
        "evaluation": "{speed_sentences: 2, speed_repeats: 1, test_sentences: 12, bootstrap_samples: 20}",
        "systems": SYSTEMS,
    }
    return written(place, tiny(**inputs | sections))


def next_sentence_mixture(folder: Path) -> tuple[MixedLoss, Mixture]:
    """Masking of pairs with next sentences in turn with multitask masking, which does not use that head."""
    tokenizer = cased_tokenizer()
    model = with_next_sentence(build_bert(tokenizer, seed=1, **SHAPE | {"dropout": 0.0}), 1)
    request = request_on(Bundle(model, tokenizer, tokenizer), documented_corpus(folder))
    settings = (MaskedSettings(input="segment-pair"), MultitaskMaskedSettings())
    objectives = objectives_of(settings, request)
    losses = {kind: objective.loss(0.0) for kind, objective in objectives.items()}
    return MixedLoss(model, losses), Mixture(objectives, dict.fromkeys(objectives, 1.0))
