"""The recipe of the stage build."""

from __future__ import annotations

from subgraft.config.base import Settings
from subgraft.config.models import ModelSettings


class BuildRecipe(Settings):
    model: ModelSettings
    seed: int
