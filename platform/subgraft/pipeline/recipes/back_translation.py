"""The recipe of the stage back-translated."""

from __future__ import annotations

from pydantic import Field

from subgraft.config.corpora import Languages
from subgraft.pipeline.recipes.recipe import Recipe


class BackTranslatedRecipe(Recipe):
    """languages: of the task that the pairs are for; the input `model` translates the other way.  beam: hypotheses of
    its search; None where tokens are drawn, by `seed`.  max_length_ratio: bytes of a translation for each of the text.
    tag: whether sources begin with the tag.

    model: what it is called; batch_size: sentences that are searched at once. Neither decides the result.
    """

    languages: Languages
    beam: int | None
    seed: int | None
    max_length_ratio: float
    tag: bool
    model: str = Field(exclude=True)
    batch_size: int = Field(exclude=True)
