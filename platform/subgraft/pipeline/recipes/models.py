"""Recipes of the stages that build, import, assemble, condition and transplant models."""

from __future__ import annotations

from collections.abc import Mapping

from pydantic import Field

from subgraft.config.conditioning import CopyingName, ReadingSettings, SourceName, VariantName
from subgraft.config.corpora import Languages
from subgraft.config.entities import TransESettings
from subgraft.config.initialisers import DonorMapping
from subgraft.config.models import ModelSettings
from subgraft.config.settings_base import SideName
from subgraft.pipeline.recipes.recipe import (
    FromCheckpoint,
    FromSettings,
    OnBothSides,
    Recipe,
    WithContext,
    WithSource,
    WithSourceEncoder,
    WithVocabularies,
)


class CheckpointRecipe(Recipe):
    """A checkpoint; `digest` is that of its files, or ID@COMMIT on the hub. A directory's path does not count.

    body: Whether its head is left out, for a head that a finetuning puts in its place.
    next_sentence: Whether it keeps a head for next sentences that only its weights show, to be trained further.
    new_languages: The languages for which it gets codes, with the initialiser of each.
    seed: Of codes that are drawn; 0 without any.
    """

    digest: str
    model: str = Field(exclude=True)
    body: bool = False
    next_sentence: bool = False
    new_languages: Mapping[str, str] = {}
    seed: int = 0

    @property
    def model_change(self) -> FromCheckpoint:
        return FromCheckpoint(self.model, self.new_languages)


class BuildRecipe(Recipe):
    model: ModelSettings
    seed: int

    @property
    def model_change(self) -> FromSettings:
        return FromSettings(self.model)


class SavedWeightsRecipe(Recipe):
    """The weights of the input `model`, a pretraining, after `step` updates."""

    step: int


class AssembleRecipe(Recipe):
    """An encoder-decoder from an encoder; `seed` is that of the decoder's new attention to the encoder."""

    seed: int

    @property
    def model_change(self) -> OnBothSides:
        return OnBothSides()


class ConditionRecipe(Recipe):
    """A language model with a source.

    A source text is read in the vocabulary of the input `encoder`, or by the encoder and in the vocabulary of the model
    `reader`; without either in the model's own vocabulary.

    Attributes:
        seed: Of the new weights.
        source: The kind of source that the input `corpus` has.
        language: Of the source text, if the model that reads it marks languages.
    """

    variant: VariantName
    settings: ReadingSettings
    seed: int
    source: SourceName = "class"
    copying: CopyingName | None = None
    language: str | None = None

    @property
    def model_change(self) -> WithSource:
        return WithSource(self.variant, self.source, self.settings, self.copying)


class SourceEncoderRecipe(Recipe):
    """The input `model` with a new encoder that reads sources in the vocabulary of the input `encoder`.

    Attributes:
        seed: Of the new weights.
    """

    layers: int
    seed: int

    @property
    def model_change(self) -> WithSourceEncoder:
        return WithSourceEncoder(self.layers)


class ContextRecipe(Recipe):
    """The input `model` with an encoder that reads the preceding sentences.

    Attributes:
        seed: Of the new weights.
    """

    languages: Languages
    sentences: int
    seed: int

    @property
    def model_change(self) -> WithContext:
        return WithContext(self.sentences)


class TransferRecipe(Recipe):
    """A transfer of a model to new vocabularies.

    Attributes:
        seed: Of random initialisers; 0 for the others, so that all seeds share one transfer.
        package: Package and version of a plugin's method.
        donor: How embeddings of the input model `donor` are mapped.
        keep_matrices: Whether to save the mixing matrices, for a finetuning with tie_to_sources.
    """

    method: str
    sides: tuple[SideName, ...]
    max_similar: int
    seed: int
    package: str | None = None
    donor: DonorMapping | None = None
    copy_shared_tokens: bool = True
    keep_matrices: bool = False

    @property
    def model_change(self) -> WithVocabularies:
        return WithVocabularies(self.sides)


# The files of embeddings of entities, as `modeling.entities` writes them.
ENTITY_FILES = ("entities.safetensors", "entities.txt")


class EntityRecipe(Recipe):
    """Embeddings of entities.

    Attributes:
        digest: Of the triples, or of the files of embeddings.
        transe: How triples are embedded; None for embeddings of the user.
        seed: Of TransE.
        place: The file of triples, or the folder of embeddings.
    """

    digest: str
    transe: TransESettings | None = None
    seed: int = 0
    place: str = Field(exclude=True)
