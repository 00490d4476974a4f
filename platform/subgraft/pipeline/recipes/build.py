"""The recipe of the stage build."""

from __future__ import annotations

from subgraft.config.models import ModelSettings
from subgraft.pipeline.recipes.recipe import Made, Recipe


class BuildRecipe(Recipe):
    model: ModelSettings
    seed: int

    @property
    def model_change(self) -> Made:
        return Made(self.model)
