"""The recipe of the stage copied."""

from __future__ import annotations

from subgraft.config.corpora import Languages
from subgraft.config.synthetic import CopiedTextSettings
from subgraft.pipeline.recipes.recipe import Recipe


class CopiedRecipe(Recipe):
    """languages: of the task that the pairs are for.  seed: of the words that copies lack."""

    languages: Languages
    copied: CopiedTextSettings
    seed: int
