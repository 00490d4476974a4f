"""A small graph, text that mentions its entities, and a model that reads them."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any

import torch

from documented import request_on
from subgraft.config.corpora import Cleaning, Languages
from subgraft.contrib.ernie_thu.entity_table import EntityTable
from subgraft.contrib.ernie_thu.masked_entities import (
    ConvertedExamples,
    EntitySentences,
    NumberedText,
)
from subgraft.contrib.ernie_thu.objective import MaskedEntitiesSettings
from subgraft.contrib.ernie_thu.settings import KnowledgeableSettings
from subgraft.data.sources.corpus_builder import build
from subgraft.data.sources.registry import CorpusSource
from subgraft.modeling.bundle import Bundle
from subgraft.modeling.families import FAMILIES
from subgraft.modeling.next_sentence import with_next_sentence
from subgraft.training.objectives.compute.interface import ObjectiveInputs
from subgraft.training.objectives.compute.masked_inputs import AROUND, SingleTexts
from subgraft.training.objectives.compute.mixture import MixedLoss, Mixture, objectives_of
from subgraft.training.objectives.masked import MaskedSettings
from toys import cased_tokenizer, english

SIZES: dict[str, Any] = {
    "d_model": 16,
    "layers": 1,
    "knowledge_layers": 2,
    "attention_heads": 2,
    "ffn_dim": 24,
    "max_positions": 48,
    "entity_width": 8,
    "entity_heads": 2,
    "dropout": 0.0,
}
LINES = english(60)


@cache
def names() -> tuple[str, ...]:
    """The words of the text, of which each is an entity."""
    return tuple(sorted({word for line in LINES for word in line.split()}))


def spans(line: str) -> list[tuple[int, int, str]]:
    """Every second word of a line as an entity."""
    mentions, at = list[tuple[int, int, str]](), 0
    for place, word in enumerate(line.split()):
        start = line.index(word, at)
        at = start + len(word)
        if place % 2 == 0:
            mentions.append((start, at, word))
    return mentions


def table(seed: int = 5) -> EntityTable:
    """A random embedding of each entity."""
    return EntityTable(names(), torch.randn(len(names()), 8, generator=torch.Generator().manual_seed(seed)))


def knowledgeable(seed: int = 1, **sizes: Any) -> Any:
    """A `KnowledgeableForMaskedLM` with weights that are large enough to distinguish entities."""
    settings, tokenizer = KnowledgeableSettings(**{**SIZES, **sizes}), cased_tokenizer()
    model: Any = FAMILIES["knowledgeable"].build(settings, tokenizer, tokenizer, seed)
    table().into(model)
    generator = torch.Generator().manual_seed(seed + 1)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.2 * torch.randn(parameter.shape, generator=generator))
    return model.eval()


def entity_sentences(seed: int = 1, max_length: int = 40, **settings: Any) -> EntitySentences:
    """The text with its entities, as examples."""
    chosen, ids = MaskedEntitiesSettings(**settings), table().ids
    known = [[(start, end, ids[name]) for start, end, name in spans(line)] for line in LINES]
    text = NumberedText.of(LINES, known, cased_tokenizer())
    inputs = ConvertedExamples(SingleTexts(text.numbers.truncate(max_length - AROUND)), text.read)
    return EntitySentences(inputs, cased_tokenizer(), chosen, len(names()), seed)


def write_entity_documents(folder: Path, splits: tuple[str, ...] = ("train", "dev")) -> dict[str, Any]:
    """Documents of lines with entities, a record for each line, and how they are read."""
    folder.mkdir(parents=True, exist_ok=True)
    for split in splits:
        records = (
            {"document": f"{split} {place // 10}", "en": line, "entities": spans(line)}
            for place, line in enumerate(LINES)
        )
        (folder / f"{split}.jsonl").write_text("".join(f"{json.dumps(each)}\n" for each in records))
    fields = {"en": {}, "entities": {"kind": "spans", "of": "en"}}
    return {"records": {"folder": str(folder), "fields": fields, "document": "document"}}


def entity_request(folder: Path, model: Any) -> ObjectiveInputs:
    """A corpus of such documents, for a model."""
    source = CorpusSource.model_validate(write_entity_documents(folder / "source"))
    cleaning = Cleaning(deduplicate=False, drop_held_out=False)
    corpus = build(source, Languages(source="en", target="en"), cleaning, folder / "corpus")
    return request_on(Bundle(model, cased_tokenizer(), cased_tokenizer()), corpus)


def entity_mixture(folder: Path) -> tuple[MixedLoss, Mixture]:
    """Segment pairs with entities in turn with lines of hidden tokens, which use neither entities nor pairs."""
    model = with_next_sentence(knowledgeable(), 1)
    settings = (MaskedEntitiesSettings(input="segment-pair"), MaskedSettings())
    objectives = objectives_of(settings, entity_request(folder, model))
    losses = {kind: objective.loss(0.0) for kind, objective in objectives.items()}
    return MixedLoss(model, losses), Mixture(objectives, dict.fromkeys(objectives, 1.0))
