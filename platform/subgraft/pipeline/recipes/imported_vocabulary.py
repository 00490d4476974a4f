"""The recipe of the stage given vocabulary."""

from __future__ import annotations

from pathlib import Path

from pydantic import Field

from subgraft.pipeline.recipes.recipe import Recipe


class GivenVocabularyRecipe(Recipe):
    """digest: of the vocabulary; where it lies does not count."""

    digest: str
    place: Path = Field(exclude=True)
