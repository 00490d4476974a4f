"""Recipes of the stages that build, import, assemble, condition and transplant models."""

from __future__ import annotations

from pydantic import Field

from subgraft.config.conditioning import CopyingName, ReadingSettings, SourceName, VariantName
from subgraft.config.models import ModelSettings
from subgraft.config.settings_base import SideName
from subgraft.pipeline.recipes.recipe import (
    FromCheckpoint,
    FromSettings,
    OnBothSides,
    Recipe,
    WithSource,
    WithVocabularies,
)


class CheckpointRecipe(Recipe):
    """digest: of the checkpoint's files, or ID@COMMIT of one on the hub; where a directory lies does not count."""

    digest: str
    model: str = Field(exclude=True)

    @property
    def model_change(self) -> FromCheckpoint:
        return FromCheckpoint(self.model)


class BuildRecipe(Recipe):
    model: ModelSettings
    seed: int

    @property
    def model_change(self) -> FromSettings:
        return FromSettings(self.model)


class AssembleRecipe(Recipe):
    """seed: of the weights that are new, the decoder's attention to the encoder."""

    seed: int

    @property
    def model_change(self) -> OnBothSides:
        return OnBothSides()


class ConditionRecipe(Recipe):
    """seed: of the weights that are new.  source: what is read of the input `corpus`, whose classes are known by it.

    It is left out of the fingerprint where it is a class. A text is read in the vocabulary that is the input `encoder`,
    or by the encoder of the model that is the input `reader`, and in its vocabulary; without either in the model's own.
    copying: left out where nothing is copied.  language: of the text, where the model that reads it marks languages.
    """

    variant: VariantName
    settings: ReadingSettings
    seed: int
    source: SourceName = Field(default="class", exclude_if=lambda given: given == "class")
    copying: CopyingName | None = Field(default=None, exclude_if=lambda given: given is None)
    language: str | None = Field(default=None, exclude_if=lambda given: given is None)

    @property
    def model_change(self) -> WithSource:
        return WithSource(self.variant, self.source, self.settings, self.copying)


class TransferRecipe(Recipe):
    """package: with its version, which offers a method that is not our own; left out of the fingerprint elsewhere.

    seed: of the random initialisers; the others are given 0, so that all seeds share one transfer.

    copy_shared_tokens, keep_matrices: left out of the fingerprint at their defaults.  keep_matrices:
    whether what rows were mixed from is kept beside the model, for a finetuning in which they stay attached.
    """

    method: str
    sides: tuple[SideName, ...]
    max_similar: int
    seed: int
    package: str | None = Field(default=None, exclude_if=lambda given: given is None)
    copy_shared_tokens: bool = Field(default=True, exclude_if=bool)
    keep_matrices: bool = Field(default=False, exclude_if=lambda given: not given)

    @property
    def model_change(self) -> WithVocabularies:
        return WithVocabularies(self.sides)
