"""A user's trained network → Generator: imported into the store."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from pathlib import Path

from subgraft.embeddings.generators.network import load_network
from subgraft.pipeline.recipes.embeddings import NETWORK_FILES, ImportedNetworkRecipe
from subgraft.training.context import Context, Json


def run(recipe: ImportedNetworkRecipe, inputs: Mapping[str, Path], out: Path, context: Context) -> dict[str, Json]:
    del inputs, context
    directory = Path(recipe.directory)
    for side in recipe.sides:
        load_network(directory, side)
    for name in NETWORK_FILES:
        shutil.copyfile(directory / name, out / name)
    return {"sides": list(recipe.sides)}
