"""The recipe of the stage corpus."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from pydantic import Field

from subgraft.config.corpora import Cleaning, CorpusSource, Languages, QuestionGenerationSettings
from subgraft.recipes.recipe import Recipe


class CorpusRecipe(Recipe):
    """identity: digests or parameters of the source, which is what the corpus is; where it lies does not count.

    questions: how pairs are made of questions; left out of the fingerprint where the source holds none.
    """

    identity: dict[str, Any]
    languages: Languages
    cleaning: Cleaning
    questions: QuestionGenerationSettings | None = Field(default=None, exclude_if=lambda given: given is None)
    source: CorpusSource = Field(exclude=True)
    base: Path = Field(exclude=True)
