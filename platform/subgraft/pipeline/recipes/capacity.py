"""The recipe of the stage capacity."""

from __future__ import annotations

from pathlib import Path

from pydantic import Field

from subgraft.pipeline.recipes.recipe import Recipe


class CapacityRecipe(Recipe):
    """What a vocabulary has for each language: an input `vocabulary`, or a user's own, by its digest.

    digest: of a vocabulary that no step made, left out of the fingerprint where one did; place: where that lies.
    The corpus of each language is an input, named after the language.
    """

    digest: str | None = Field(default=None, exclude_if=lambda given: given is None)
    place: Path | None = Field(default=None, exclude=True)
