"""A model of the user's own → PretrainedModel: a checkpoint brought into the store, in our layout."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from pydantic import Field

from subgraft.config.base import Settings
from subgraft.models.bundle import Bundle
from subgraft.stages.context import Context, Json


class CheckpointRecipe(Settings):
    """digest: of the checkpoint's files, or the hub id with its revision; where a directory lies does not count."""

    digest: str
    model: str = Field(exclude=True)


def run(recipe: CheckpointRecipe, inputs: Mapping[str, Path], out: Path, context: Context) -> dict[str, Json]:
    del inputs, context
    bundle = Bundle.load(recipe.model)
    bundle.save(out)
    return {"parameters": bundle.model.num_parameters(), "family": bundle.model.config.model_type}
