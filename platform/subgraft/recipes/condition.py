"""The recipe of the stage condition."""

from __future__ import annotations

from subgraft.config.conditioning import ClassConditioningSettings, VariantName
from subgraft.recipes.recipe import Recipe, WithClasses


class ConditionRecipe(Recipe):
    """seed: of the weights that are new. The classes are those of the input `corpus`."""

    variant: VariantName
    settings: ClassConditioningSettings
    seed: int

    @property
    def model_change(self) -> WithClasses:
        return WithClasses(self.variant, self.settings)
