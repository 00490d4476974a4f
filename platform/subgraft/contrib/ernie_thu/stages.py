"""The stage that makes embeddings of entities."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from pydantic import Field

from subgraft.contrib.ernie_thu.settings import TransESettings
from subgraft.training.stage import Inputs, Stage, Summary

if TYPE_CHECKING:
    from subgraft.training.context import Context

# The files of embeddings of entities, as `entity_table.py` writes them.
ENTITY_FILES = ("entities.safetensors", "entities.txt")


class EntityStage(Stage):
    """Embeddings of entities.

    Attributes:
        digest: Of the triples, or of the files of embeddings.
        transe: How triples are embedded; None for embeddings of the user.
        seed: Of TransE.
        place: The file of triples, or the folder of embeddings.
    """

    stage_name: ClassVar[str] = "entities"
    revision: ClassVar[int] = 1

    digest: str
    transe: TransESettings | None = None
    seed: int = 0
    place: str = Field(exclude=True)

    def run(self, inputs: Inputs, out: Path, context: Context) -> Summary:
        from subgraft.contrib.ernie_thu.transe import embed_entities

        return embed_entities(self, out, context)
