"""The recipe of the stage condition."""

from __future__ import annotations

from pydantic import Field

from subgraft.config.conditioning import CopyingName, ReadingSettings, SourceName, VariantName
from subgraft.pipeline.recipes.recipe import Recipe, WithSource


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
