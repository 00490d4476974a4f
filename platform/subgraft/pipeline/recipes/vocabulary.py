"""The recipe of the stage vocabulary."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from subgraft.config.vocabularies import VocabularySettings
from subgraft.pipeline.recipes.recipe import Recipe


class VocabularyRecipe(Recipe):
    """side: of the corpus, or both for a vocabulary that sides share, which then has a mask token and language codes.

    With an input `model`, that model's special tokens and language codes are taken over. With an input `second`, the
    vocabulary is learnt on the text of two corpora, weighed so; `weighing` is left out of the fingerprint elsewhere.
    marks: text that the vocabulary must be able to spell, as it will read it; left out likewise where there is none.
    """

    side: Literal["source", "target", "both"]
    settings: VocabularySettings
    languages: tuple[str, ...] = ()
    weighing: Literal["as-they-are", "equal"] | None = Field(default=None, exclude_if=lambda given: given is None)
    marks: tuple[str, ...] = Field(default=(), exclude_if=lambda given: not given)
