"""Recipes of the stages that make corpora: imported, copied, reversed and back-translated ones."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from pydantic import Field

from subgraft.config.corpora import Cleaning, CorpusSource, Languages, QuestionGenerationSettings
from subgraft.config.settings_base import DecodingEngine, Settings, TextSide
from subgraft.config.synthetic import CopiedTextSettings
from subgraft.pipeline.recipes.recipe import Recipe


class CorpusRecipe(Recipe):
    """A corpus from a source of text.

    Attributes:
        identity: Digests or parameters of the source, which identify the corpus; its path does not.
        languages: Of a task, whose texts become source and target.
        texts: The language of each text by its field, for a corpus of all texts of its source.
        questions: How pairs are made of questions, if the source holds any.
        source, base: The source, and the folder of relative paths.
    """

    identity: dict[str, Any]
    languages: Languages | None = None
    texts: dict[str, str] | None = None
    cleaning: Cleaning
    questions: QuestionGenerationSettings | None = None
    source: CorpusSource = Field(exclude=True)
    base: Path = Field(exclude=True)

    @property
    def codes(self) -> str:
        """The languages in words."""
        pair = self.languages
        return f"{pair.source}-{pair.target}" if pair is not None else ", ".join((self.texts or {}).values())


class TextRecipe(Recipe):
    """Monolingual text of the task's domain. Segments of the input `corpus`, the task's pairs, are removed from it.

    Attributes:
        identities: Of each side's sources, in order: digests or parameters, as those of a corpus.
        languages: Of the task.
        questions: How pairs are made of questions, if a source holds any.
    """

    identities: dict[TextSide, tuple[dict[str, Any], ...]]
    languages: Languages
    cleaning: Cleaning
    questions: QuestionGenerationSettings | None = None
    sources: dict[TextSide, tuple[CorpusSource, ...]] = Field(exclude=True)
    base: Path = Field(exclude=True)

    @property
    def sides(self) -> tuple[TextSide, ...]:
        """The sides with text."""
        return tuple(self.identities)


class CopiedRecipe(Recipe):
    """Pairs of a text with copies of itself.

    Attributes:
        languages: Of the task that the pairs are for.
        seed: Of the words that are dropped from copies.
    """

    languages: Languages
    copied: CopiedTextSettings
    seed: int


class ReversedRecipe(Recipe):
    """A corpus with its sides exchanged; `languages` are those before the exchange."""

    languages: Languages


class TextPart(Settings):
    """The part with index `number` of a text, shuffled with `seed` and split into parts of `size` lines."""

    size: int
    number: int
    seed: int


class BackTranslatedRecipe(Recipe):
    """Back-translated pairs: the input `model` translates the input `text` into the task's source language.

    Attributes:
        languages: Of the task that the pairs are for.
        side: The text that is translated, which is the target of the pairs.
        beam: Hypotheses of the search; None samples tokens with `seed`.
        max_length_ratio: Bytes of a translation per byte of the text.
        engine: Of the search.
        part: The lines that are translated; None for all.
        min_count: Only tokens that occur at least this often in the text of the other side are generated; None for all.
        tag: Whether sources start with the tag of back-translations.
        model: The model's name; not in the fingerprint.
        batch_size: Sentences per batch of the search; not in the fingerprint.
    """

    languages: Languages
    side: TextSide = "target"
    beam: int | None
    seed: int | None
    max_length_ratio: float
    engine: DecodingEngine = "transformers"
    part: TextPart | None = None
    min_count: int | None = None
    tag: bool
    model: str = Field(exclude=True)
    batch_size: int = Field(exclude=True)


# The recipes of all steps whose artifact is a corpus.
CORPORA = (CorpusRecipe, TextRecipe, CopiedRecipe, ReversedRecipe, BackTranslatedRecipe)
