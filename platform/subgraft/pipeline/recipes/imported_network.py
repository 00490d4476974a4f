"""The recipe of the stage given network."""

from __future__ import annotations

from pydantic import Field

from subgraft.config.settings_base import SideName
from subgraft.pipeline.recipes.recipe import Recipe

# What a trained network consists of, as `embeddings.generators.network` writes it.
NETWORK_FILES = ("generator.json", "network.safetensors")


class GivenNetworkRecipe(Recipe):
    """digest: of the network's files; where they lie does not count.  sides: for which there must be one."""

    digest: str
    sides: tuple[SideName, ...]
    directory: str = Field(exclude=True)
