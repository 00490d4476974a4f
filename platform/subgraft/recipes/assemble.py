"""The recipe of the stage assemble."""

from __future__ import annotations

from subgraft.config.base import Settings


class AssembleRecipe(Settings):
    """seed: of the weights that are new, the decoder's attention to the encoder."""

    seed: int
