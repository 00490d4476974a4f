"""Stages that make corpora: imported, copied, reversed and back-translated ones."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from pydantic import Field

from subgraft.config.corpora import Cleaning, Languages
from subgraft.config.settings_base import Settings, TextSide, TranslationEngine
from subgraft.config.synthetic import CopiedTextSettings
from subgraft.data.sources.registry import CorpusSource
from subgraft.data.tasks.question_generation import QuestionGenerationSettings
from subgraft.training.stage import Inputs, Stage, Summary

if TYPE_CHECKING:
    from subgraft.training.context import Context


class CorpusStage(Stage):
    """A corpus from a source of text.

    Attributes:
        identity: Digests or parameters of the source, which identify the corpus; its path does not.
        languages: Of a task, whose texts become source and target.
        texts: The language of each text by its field, for a corpus of all texts of its source.
        questions: How pairs are made of questions, if the source holds any.
        source, base: The source, and the folder of relative paths.
    """

    stage_name: ClassVar[str] = "corpus"
    revision: ClassVar[int] = 2

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

    def run(self, inputs: Inputs, out: Path, context: Context) -> Summary:
        from subgraft.pipeline.compute.corpora import import_corpus

        return import_corpus(self, inputs, out, context)


class TextStage(Stage):
    """Monolingual text of the task's domain. Segments of the input `corpus`, the task's pairs, are removed from it.

    Attributes:
        identities: Of each side's sources, in order: digests or parameters, as those of a corpus.
        languages: Of the task.
        questions: How pairs are made of questions, if a source holds any.
    """

    stage_name: ClassVar[str] = "text"
    revision: ClassVar[int] = 1

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

    def run(self, inputs: Inputs, out: Path, context: Context) -> Summary:
        from subgraft.pipeline.compute.corpora import import_text

        return import_text(self, inputs, out, context)


class CopiedStage(Stage):
    """Pairs of a text with copies of itself.

    Attributes:
        languages: Of the task that the pairs are for.
        seed: Of the words that are dropped from copies.
    """

    stage_name: ClassVar[str] = "copied"
    revision: ClassVar[int] = 1

    languages: Languages
    copied: CopiedTextSettings
    seed: int

    def run(self, inputs: Inputs, out: Path, context: Context) -> Summary:
        from subgraft.pipeline.compute.corpora import copy_text

        return copy_text(self, inputs, out, context)


class ReversedStage(Stage):
    """A corpus with its sides exchanged; `languages` are those before the exchange."""

    stage_name: ClassVar[str] = "reversed"
    revision: ClassVar[int] = 1

    languages: Languages

    def run(self, inputs: Inputs, out: Path, context: Context) -> Summary:
        from subgraft.pipeline.compute.corpora import reverse_corpus

        return reverse_corpus(self, inputs, out, context)


class TextPart(Settings):
    """The part with index `number` of a text, shuffled with `seed` and split into parts of `size` lines."""

    size: int
    number: int
    seed: int


class BackTranslatedStage(Stage):
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

    stage_name: ClassVar[str] = "back-translated"
    revision: ClassVar[int] = 1
    distributed: ClassVar[bool] = True
    accelerated: ClassVar[bool] = True

    languages: Languages
    side: TextSide = "target"
    beam: int | None
    seed: int | None
    max_length_ratio: float
    engine: TranslationEngine = "transformers"
    part: TextPart | None = None
    min_count: int | None = None
    tag: bool
    model: str = Field(exclude=True)
    batch_size: int = Field(exclude=True)

    def run(self, inputs: Inputs, out: Path, context: Context) -> Summary:
        from subgraft.pipeline.compute.back_translation import back_translate

        return back_translate(self, inputs, out, context)


# The stages of all steps whose artifact is a corpus.
CORPORA = (CorpusStage, TextStage, CopiedStage, ReversedStage, BackTranslatedStage)
