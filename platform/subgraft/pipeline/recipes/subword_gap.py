"""The recipe of the stage gap."""

from __future__ import annotations

from subgraft.pipeline.recipes.recipe import Recipe


class GapRecipe(Recipe):
    """words: how many of the most over-segmented words to show."""

    words: int = 20
