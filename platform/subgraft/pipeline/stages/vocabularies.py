"""Stages that learn, adapt, import and compare vocabularies."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, Literal

from pydantic import Field

from subgraft.config.initialisers import StaticEmbeddingSettings
from subgraft.config.settings_base import MAX_LOST_LINES, SideName, StaticAlgorithm
from subgraft.config.vocabularies import VocabularySettings
from subgraft.training.stage import Inputs, Stage, Summary

if TYPE_CHECKING:
    from subgraft.training.context import Context


class VocabularyStage(Stage):
    """A vocabulary learnt on the input `corpus`.

    With an input `model`, that model's special tokens, language codes and normalisation are copied. With an input
    `second`, the vocabulary is learnt on two corpora.

    Attributes:
        side: Of the corpus, or both for a shared vocabulary.
        languages: Language codes to add, and tokens that mark entities.
        mask: Whether to add a mask token.
        weighing: Of the two corpora.
        marks: Text that the vocabulary must be able to spell.
        max_lost_lines: The share of lines that it may lose, with an input `model`; does not count.
    """

    stage_name: ClassVar[str] = "vocabulary"
    revision: ClassVar[int] = 3

    side: Literal["source", "target", "both"]
    settings: VocabularySettings
    languages: tuple[str, ...] = ()
    mask: bool = False
    weighing: Literal["as-they-are", "equal"] | None = None
    marks: tuple[str, ...] = ()
    max_lost_lines: float = Field(default=MAX_LOST_LINES, exclude=True)

    def run(self, inputs: Inputs, out: Path, context: Context) -> Summary:
        from subgraft.pipeline.compute.vocabularies import learn_vocabulary

        return learn_vocabulary(self, inputs, out, context)


class AdaptedVocabularyStage(Stage):
    """An upstream vocabulary with a task's subwords added, or without those that the task does not use.

    Attributes:
        side: Of the corpus, or both for a shared vocabulary.
        model_side: The side of the input `model` whose vocabulary it is, if there is no input `vocabulary`.
        added: Number of subwords to add; None trims the vocabulary.
        min_count: Subwords that occur less often in the text are not added, or are removed.
        words: User-defined symbols among those to add.
        max_lost_lines: The share of lines that it may lose; does not count.
    """

    stage_name: ClassVar[str] = "adapted-vocabulary"
    revision: ClassVar[int] = 3

    side: Literal["source", "target", "both"]
    model_side: SideName
    added: int | None
    min_count: int
    words: tuple[str, ...] = ()
    max_lost_lines: float = Field(default=MAX_LOST_LINES, exclude=True)

    def run(self, inputs: Inputs, out: Path, context: Context) -> Summary:
        from subgraft.pipeline.compute.vocabularies import adapt_vocabulary

        return adapt_vocabulary(self, inputs, out, context)


class ImportedVocabularyStage(Stage):
    """A vocabulary of the user, identified by its digest; its path does not count."""

    stage_name: ClassVar[str] = "imported-vocabulary"
    revision: ClassVar[int] = 2

    digest: str
    place: Path = Field(exclude=True)

    def run(self, inputs: Inputs, out: Path, context: Context) -> Summary:
        from subgraft.pipeline.compute.vocabularies import import_vocabulary

        return import_vocabulary(self, inputs, out, context)


class GapStage(Stage):
    """The subword gap of two vocabularies; `words` of the most over-segmented words are shown."""

    stage_name: ClassVar[str] = "gap"
    revision: ClassVar[int] = 4

    words: int = 20

    def run(self, inputs: Inputs, out: Path, context: Context) -> Summary:
        from subgraft.pipeline.compute.vocabularies import measure_gap

        return measure_gap(self, inputs, out, context)


class StaticEmbeddingsStage(Stage):
    """Static embeddings of a vocabulary, trained on this side of the corpus."""

    stage_name: ClassVar[str] = "static"
    revision: ClassVar[int] = 1

    side: Literal["source", "target"]
    algorithm: StaticAlgorithm
    settings: StaticEmbeddingSettings

    def run(self, inputs: Inputs, out: Path, context: Context) -> Summary:
        from subgraft.pipeline.compute.transfer import train_static_embeddings

        return train_static_embeddings(self, inputs, out, context)
