"""The recipe of the stage intrinsic."""

from __future__ import annotations

from subgraft.config.base import Settings, SideName
from subgraft.config.evaluation import IntrinsicSettings


class IntrinsicRecipe(Settings):
    """seed: of the random initialisers, as a transfer has it; the sample has its own."""

    method: str
    sides: tuple[SideName, ...]
    max_similar: int
    seed: int
    sample: IntrinsicSettings
