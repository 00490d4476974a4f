"""The recipe of the stage assemble."""

from __future__ import annotations

from subgraft.pipeline.recipes.recipe import OnBothSides, Recipe


class AssembleRecipe(Recipe):
    """seed: of the weights that are new, the decoder's attention to the encoder."""

    seed: int

    @property
    def model_change(self) -> OnBothSides:
        return OnBothSides()
