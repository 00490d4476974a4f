"""The recipe of the stage checkpoint."""

from __future__ import annotations

from pydantic import Field

from subgraft.pipeline.recipes.recipe import Recipe, TakenOver


class CheckpointRecipe(Recipe):
    """digest: of the checkpoint's files, or ID@COMMIT of one on the hub; where a directory lies does not count."""

    digest: str
    model: str = Field(exclude=True)

    @property
    def model_change(self) -> TakenOver:
        return TakenOver(self.model)
