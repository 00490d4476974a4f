"""The recipe of the stage joint vocabulary."""

from __future__ import annotations

from typing import Literal

from subgraft.pipeline.recipes.recipe import Recipe


class JointVocabularyRecipe(Recipe):
    """The corpus of each language is an input, named after the language.

    lines: the most that it is learnt on.  size: of everything, or the largest below it that the text can give.
    """

    kind: Literal["unigram", "bpe"]
    size: int
    lines: int
    language_exponent: float
    byte_fallback: bool
    mask: bool
    codes: tuple[str, ...]
