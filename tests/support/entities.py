"""A small graph, text that mentions its entities, and a model that reads them."""

from __future__ import annotations

from functools import cache
from typing import Any

import torch

from subgraft.config.entity_objectives import MaskedEntitiesSettings
from subgraft.config.models import KnowledgeableSettings
from subgraft.modeling.entities import EntityTable
from subgraft.modeling.families import FAMILIES
from subgraft.training.objectives.masked import MaskedSentences, masking
from subgraft.training.objectives.masked_entities import EntitySentences, aligned
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
    text = MaskedSentences(LINES, cased_tokenizer(), masking(chosen), max_length, seed)
    return EntitySentences(text, aligned(LINES, known, cased_tokenizer()), chosen, len(names()), seed)
