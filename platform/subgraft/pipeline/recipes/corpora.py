"""Recipes of the stages that make corpora: read, copied, reversed and back-translated ones."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from pydantic import Field

from subgraft.config.corpora import Cleaning, CorpusSource, Languages, QuestionGenerationSettings
from subgraft.config.settings_base import TextSide
from subgraft.config.synthetic import CopiedTextSettings
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


class CopiedRecipe(Recipe):
    """languages: of the task that the pairs are for.  seed: of the words that copies lack."""

    languages: Languages
    copied: CopiedTextSettings
    seed: int


class ReversedRecipe(Recipe):
    """languages: of the pairs as they are, before their sides are exchanged."""

    languages: Languages


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
