"""The recipe of the stage intrinsic."""

from __future__ import annotations

from subgraft.config.base import SideName
from subgraft.config.evaluation import IntrinsicSettings
from subgraft.recipes.recipe import Recipe


class IntrinsicRecipe(Recipe):
    """seed: of the random initialisers, as a transfer has it; the sample has its own."""

    method: str
    sides: tuple[SideName, ...]
    max_similar: int
    seed: int
    sample: IntrinsicSettings
