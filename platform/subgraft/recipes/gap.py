"""The recipe of the stage gap."""

from __future__ import annotations

from subgraft.config.base import Settings


class GapRecipe(Settings):
    """words: how many of the most over-segmented words to show."""

    words: int = 20
