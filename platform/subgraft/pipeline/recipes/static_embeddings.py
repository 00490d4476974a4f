"""The recipe of the stage static embeddings."""

from __future__ import annotations

from typing import Literal

from subgraft.config.settings_base import StaticAlgorithm
from subgraft.config.initialisers import StaticEmbeddingSettings
from subgraft.pipeline.recipes.recipe import Recipe


class StaticEmbeddingsRecipe(Recipe):
    """side: of the corpus, the one whose vocabulary it is."""

    side: Literal["source", "target"]
    algorithm: StaticAlgorithm
    settings: StaticEmbeddingSettings
