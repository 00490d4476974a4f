"""The recipe of the stage curve."""

from __future__ import annotations

from typing import Literal

from subgraft.pipeline.recipes.recipe import Recipe


class CurveRecipe(Recipe):
    """Of the training text of the input `corpus`.

    sizes: at which ALP is measured, rising.  exact: unigram is trained anew at each.
    """

    kind: Literal["unigram", "bpe"]
    sizes: tuple[int, ...]
    exact: bool
