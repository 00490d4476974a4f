"""Settings of the entities that an upstream model reads: a knowledge graph, or embeddings of one."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, model_validator

from subgraft.base.limits import MAX_WIDTH
from subgraft.config.settings_base import Count, Settings

# Tokens around the head and the tail of a relation, and around an entity to be typed (Zhang et al. 2019, section 3.5).
HEAD_TOKEN, TAIL_TOKEN, ENTITY_TOKEN = ENTITY_TOKENS = ("[HD]", "[TL]", "[ENT]")


class TransESettings(Settings):
    """TransE (Bordes et al., NeurIPS 2013): embeddings in which a head plus its relation is near the tail.

    dimensions: the width of the embeddings; must be model.entity_width.
    margin: by how much a triple must be nearer than a corrupted one.
    norm: the distance: 1 for L1, 2 for L2.
    epochs: passes over the triples.
    batch_size: triples per update.
    learning_rate: of gradient descent.
    """

    dimensions: Annotated[int, Field(ge=1, le=MAX_WIDTH)] = 100
    margin: Annotated[float, Field(gt=0)] = 1.0
    norm: Literal[1, 2] = 1
    epochs: Count = 100
    batch_size: Count = 128
    learning_rate: Annotated[float, Field(gt=0)] = 0.01


class EntitySettings(Settings):
    """The entities that a model of the family `knowledgeable` reads; their embeddings stay as they are.

    triples: a file of a knowledge graph, head, relation and tail in tab-separated lines; TransE embeds its entities.
    embeddings: a folder of embeddings, in place of triples: entities.safetensors with the tensor `entities`, and
    entities.txt with a name a line.
    transe: how triples are embedded.
    """

    triples: str | None = None
    embeddings: str | None = None
    transe: TransESettings = TransESettings()

    @model_validator(mode="after")
    def _one_source(self) -> EntitySettings:
        if (self.triples is None) == (self.embeddings is None):
            raise ValueError("give exactly one of triples, embeddings")
        if self.embeddings is not None and "transe" in self.model_fields_set:
            raise ValueError("transe embeds triples: leave it out, or give triples in place of embeddings")
        return self
