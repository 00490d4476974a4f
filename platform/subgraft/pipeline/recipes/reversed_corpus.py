"""The recipe of the stage reversed."""

from __future__ import annotations

from subgraft.config.corpora import Languages
from subgraft.pipeline.recipes.recipe import Recipe


class ReversedRecipe(Recipe):
    """languages: of the pairs as they are, before their sides are exchanged."""

    languages: Languages
