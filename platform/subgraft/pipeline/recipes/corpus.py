"""The recipe of the stage corpus."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from pydantic import Field

from subgraft.config.corpora import Cleaning, CorpusSource, Languages, QuestionGenerationSettings
from subgraft.pipeline.recipes.recipe import Recipe


class CorpusRecipe(Recipe):
    """identity: digests or parameters of the source, which is what the corpus is; where it lies does not count.

    languages: those of a task, whose texts become source and target.  texts: the language of each text by its field,
    where a corpus is of all that its source names instead. Only the one that is given is in the fingerprint.
    questions: how pairs are made of questions; left out of the fingerprint where the source holds none.
    """

    identity: dict[str, Any]
    languages: Languages | None = Field(default=None, exclude_if=lambda given: given is None)
    texts: dict[str, str] | None = Field(default=None, exclude_if=lambda given: given is None)
    cleaning: Cleaning
    questions: QuestionGenerationSettings | None = Field(default=None, exclude_if=lambda given: given is None)
    source: CorpusSource = Field(exclude=True)
    base: Path = Field(exclude=True)

    @property
    def codes(self) -> str:
        """The languages, for people."""
        pair = self.languages
        return f"{pair.source}-{pair.target}" if pair is not None else ", ".join((self.texts or {}).values())
