"""The recipe of the stage intrinsic."""

from __future__ import annotations

from pydantic import Field

from subgraft.config.settings_base import SideName
from subgraft.config.evaluation import IntrinsicSettings
from subgraft.pipeline.recipes.recipe import Recipe


class IntrinsicRecipe(Recipe):
    """package: with its version, which offers a method that is not our own; left out of the fingerprint elsewhere.

    seed: of the random initialisers, as a transfer has it; the sample has its own."""

    method: str
    sides: tuple[SideName, ...]
    max_similar: int
    seed: int
    package: str | None = Field(default=None, exclude_if=lambda given: given is None)
    sample: IntrinsicSettings
