"""Settings of a new ERNIE of Tsinghua, and of the entities that it reads: a knowledge graph, or embeddings of one."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from pydantic import Field, model_validator

from subgraft.base.errors import UserError
from subgraft.base.limits import MAX_WIDTH
from subgraft.config.model_shapes import EntityInput, Layers, OneStackSettings
from subgraft.config.settings_base import Count, Settings, Share, SideName

if TYPE_CHECKING:
    from subgraft.orchestration.store.step import Step


class KnowledgeableSettings(OneStackSettings):
    """Tsinghua's ERNIE (Zhang et al., ACL 2019): a BERT that reads embeddings of entities (upstream.entities) too.

    layers: layers of the textual encoder.
    knowledge_layers: layers of the knowledgeable encoder above it.
    entity_width: the width of entity embeddings and states.
    entity_heads: heads of the attention of entities; a divisor of entity_width.
    dropout: dropout of embeddings and of the output of each sublayer.
    """

    objectives = frozenset({"masked", "masked-entities", "knowledge-text"})
    vocabulary_kinds = ("wordpiece",)

    family: Literal["knowledgeable"] = "knowledgeable"
    knowledge_layers: Layers
    entity_width: Annotated[int, Field(ge=1, le=MAX_WIDTH)] = 100
    entity_heads: Annotated[int, Field(ge=1, le=1024)] = 4
    dropout: Share = 0.1

    def depth(self, side: SideName) -> int:
        return self.layers + self.knowledge_layers

    @property
    def width_of_entities(self) -> int:
        return self.entity_width

    @property
    def predicts_next(self) -> bool:
        return True

    @model_validator(mode="after")
    def _entity_heads_divide(self) -> KnowledgeableSettings:
        if self.entity_width % self.entity_heads:
            raise ValueError(f"entity_width {self.entity_width} is not divisible by entity_heads {self.entity_heads}")
        return self


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


class EntitySettings(EntityInput):
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

    @property
    def width(self) -> int | None:
        return None if self.triples is None else self.transe.dimensions

    def step(self, base: Path, seed: int) -> Step:
        from subgraft.base.files import file_digest
        from subgraft.contrib.ernie_thu.stages import ENTITY_FILES, EntityStage
        from subgraft.data.sources.paths import find, find_file
        from subgraft.data.text.reading import read_triples
        from subgraft.orchestration.store.step import Step

        if self.triples is not None:
            path = find_file(self.triples, base)
            read_triples(path)  # a broken line is reported before anything runs
            stage = EntityStage(digest=file_digest(path), transe=self.transe, seed=seed, place=str(path))
            return Step(stage, f"embeddings of the entities of {path.name}")
        path = find(self.embeddings or "", base)
        digest = hashlib.sha256()
        for name in ENTITY_FILES:
            if not (path / name).is_file():
                hint = f"A folder of embeddings has {' and '.join(ENTITY_FILES)}."
                raise UserError(f"no {name} here", where=str(path), hint=hint)
            digest.update(f"{name} {file_digest(path / name)}\n".encode())
        return Step(EntityStage(digest=digest.hexdigest(), place=str(path)), "imported embeddings of entities")
