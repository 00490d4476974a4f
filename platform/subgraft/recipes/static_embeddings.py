"""The recipe of the stage static embeddings."""

from __future__ import annotations

from typing import Literal

from subgraft.config.base import StaticAlgorithm
from subgraft.config.initialisers import StaticEmbeddingSettings
from subgraft.recipes.recipe import Recipe


class StaticEmbeddingsRecipe(Recipe):
    """side: of the corpus, the one whose vocabulary it is."""

    side: Literal["source", "target"]
    algorithm: StaticAlgorithm
    settings: StaticEmbeddingSettings
