"""A user's model → PretrainedModel: a checkpoint imported into the store, in our layout."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from subgraft.modeling.bundle import Bundle
from subgraft.modeling.families import family_of
from subgraft.pipeline.recipes.models import CheckpointRecipe
from subgraft.training.context import Context, Json


def run(recipe: CheckpointRecipe, inputs: Mapping[str, Path], out: Path, context: Context) -> dict[str, Json]:
    del inputs, context
    bundle = Bundle.load(recipe.model)
    bundle.save(out)
    return {"parameters": bundle.model.num_parameters(), "family": family_of(bundle.model).model_type}
