"""The recipe of the stage text."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from pydantic import Field

from subgraft.config.settings_base import TextSide
from subgraft.config.corpora import Cleaning, CorpusSource, Languages, QuestionGenerationSettings
from subgraft.pipeline.recipes.recipe import Recipe


class TextRecipe(Recipe):
    """identities: of each side's sources, in order: digests or parameters, as those of a corpus.

    languages: of the task.  questions: how pairs are made of questions, where a source holds some.  The step's input
    `corpus` is the task's pairs, whose segments are left out.
    """

    identities: dict[TextSide, tuple[dict[str, Any], ...]]
    languages: Languages
    cleaning: Cleaning
    questions: QuestionGenerationSettings | None = Field(default=None, exclude_if=lambda given: given is None)
    sources: dict[TextSide, tuple[CorpusSource, ...]] = Field(exclude=True)
    base: Path = Field(exclude=True)

    @property
    def sides(self) -> tuple[TextSide, ...]:
        """Those that there is text of."""
        return tuple(self.identities)
