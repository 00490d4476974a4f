"""The recipe of the stage allocation."""

from __future__ import annotations

from subgraft.pipeline.recipes.recipe import Recipe


class AllocationRecipe(Recipe):
    """The curve of each language is an input, named after the language.

    total: of everything in the vocabulary.  codes: special tokens of the languages.
    """

    total: int
    language_exponent: float
    capacity_exponent: float
    byte_fallback: bool
    mask: bool
    codes: tuple[str, ...]
