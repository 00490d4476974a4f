"""Small finetunings that translate: several directions, blocks of documents, context, and back-translated text."""

from __future__ import annotations

import json
from pathlib import Path

from torch import nn

from subgraft.config.corpora import Cleaning, Languages
from subgraft.config.training import FinetuneSettings
from subgraft.contrib.context.objective import ContextTranslationSettings
from subgraft.contrib.context.stage import with_context
from subgraft.data.sources.corpus_builder import build
from subgraft.data.sources.registry import CorpusSource
from subgraft.data.synthetic_pairs import write_pairs
from subgraft.data.text.corpus import Corpus
from subgraft.modeling.bundle import Bundle
from subgraft.modeling.sides import without_dropout
from subgraft.pipeline.compute.back_translation import BothDirections
from subgraft.training.objectives.compute.interface import ObjectiveInputs
from subgraft.training.objectives.compute.mixture import with_text
from subgraft.training.objectives.compute.translation import TaskPairs, directions_text
from subgraft.training.objectives.translation import (
    DocumentTranslationSettings,
    TranslationSettings,
)
from subgraft.training.schedule import Data
from toys import SHAPE, build_mbart, english, german, multilingual_tokenizer

THERE, BACK = Languages(source="en", target="de"), Languages(source="de", target="en")
TASKS = ("directions", "documents", "context", "back-translated", "unsupervised")


def translation_task(kind: str, place: Path) -> tuple[nn.Module, Data]:
    """The loss and the data of one of TASKS; its corpora are written to a folder."""
    tokenizer = multilingual_tokenizer()
    model = without_dropout(build_mbart(tokenizer, seed=1, **SHAPE | {"max_positions": 120}))
    bundle = Bundle(model, tokenizer, tokenizer)
    settings = FinetuneSettings(
        max_steps=1,
        batch_size=160,
        max_length=70,
        dev_sentences=4,
        label_smoothing=0.1,
        learning_rate=0.01,
        warmup_steps=4,
    )
    if kind == "context":
        bundle = with_context(bundle, THERE, 2, 1)
        without_dropout(bundle.model)
    if kind in ("documents", "context"):
        in_blocks, in_context = DocumentTranslationSettings(block_tokens=40), ContextTranslationSettings()
        request = ObjectiveInputs(bundle, _documents(place), THERE, settings, 1)
        text = (in_blocks if kind == "documents" else in_context).finetuning(request, settings)
        return text.loss(bundle), text
    there, back = (
        ObjectiveInputs(bundle, _pairs(place / each.name, each, size), each, settings, 1)
        for each, size in ((THERE, 60), (BACK, 30))
    )
    if kind == "directions":
        several = directions_text(TranslationSettings(), {"en-de": there, "de-en": back}, settings, 0.7)
        return several.loss(bundle), several
    if kind == "unsupervised":
        ways = [TaskPairs(each, settings, limited=False) for each in (there, back)]
        made = BothDirections(ways[0], ways[1], there)
        return made.loss(bundle), made
    both = with_text(TranslationSettings().finetuning(there, settings), TranslationSettings(), back, settings)
    return both.loss(bundle), both


def _pairs(place: Path, languages: Languages, size: int) -> Corpus:
    place.mkdir(parents=True)
    lines = {"en": english(size, size), "de": german(size, size)}
    pairs = list(zip(lines[languages.source], lines[languages.target], strict=True))
    return write_pairs({"train": pairs, "dev": pairs[:4]}, languages, {}, place)


def _documents(place: Path) -> Corpus:
    """Documents of one to seven sentences."""
    for split, count in (("train", 20), ("dev", 2)):
        rows = [
            {"doc": f"{split}{number}", "en": english(1 + number % 7, number), "de": german(1 + number % 7, number)}
            for number in range(count)
        ]
        (place / f"{split}.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    fields: dict[str, dict[str, str]] = {"en": {}, "de": {}}
    source = CorpusSource.model_validate({"records": {"folder": str(place), "fields": fields, "document": "doc"}})
    return build(source, THERE, Cleaning(deduplicate=False, drop_held_out=False), place / "corpus")
