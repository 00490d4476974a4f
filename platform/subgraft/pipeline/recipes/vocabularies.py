"""Recipes of the stages that learn, adapt, import and compare vocabularies."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from pydantic import Field

from subgraft.config.initialisers import StaticEmbeddingSettings
from subgraft.config.settings_base import SideName, StaticAlgorithm
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


class AdaptedVocabularyRecipe(Recipe):
    """An upstream vocabulary with a task's subwords added, or without those that the task does not use.

    The vocabulary is the input `vocabulary`, or that of the input `model` on `model_side`.  side: of the corpus, or
    both for a vocabulary that sides share.  added: how many subwords are added; None where it is trimmed.  min_count:
    what the text has fewer times is not added, or does not stay.
    """

    side: Literal["source", "target", "both"]
    model_side: SideName
    added: int | None
    min_count: int


class ImportedVocabularyRecipe(Recipe):
    """digest: of the vocabulary; where it lies does not count."""

    digest: str
    place: Path = Field(exclude=True)


class GapRecipe(Recipe):
    """words: how many of the most over-segmented words to show."""

    words: int = 20


class StaticEmbeddingsRecipe(Recipe):
    """side: of the corpus, the one whose vocabulary it is."""

    side: Literal["source", "target"]
    algorithm: StaticAlgorithm
    settings: StaticEmbeddingSettings
