"""The stage that gives a language model a source."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from subgraft.contrib.conditioning.family import with_source
from subgraft.contrib.conditioning.source_settings import conditioning_settings, pretrained_source
from subgraft.modeling.conditioning.settings import CopyingName, ReadingSettings, SourceName
from subgraft.modeling.conditioning.variants.registry import VariantName
from subgraft.training.stage import Inputs, Stage, Summary

if TYPE_CHECKING:
    from subgraft.modeling.families import Config
    from subgraft.training.context import Context
    from subgraft.training.stage import KnownInputs


class ConditionStage(Stage):
    """A language model with a source.

    A source text is read in the vocabulary of the input `encoder`, or by the encoder and in the vocabulary of the model
    `reader`; without either in the model's own vocabulary.

    Attributes:
        seed: Of the new weights.
        source: The kind of source that the input `corpus` has.
        language: Of the source text, if the model that reads it marks languages.
    """

    stage_name: ClassVar[str] = "condition"
    revision: ClassVar[int] = 1

    variant: VariantName
    settings: ReadingSettings
    seed: int
    source: SourceName = "class"
    copying: CopyingName | None = None
    language: str | None = None

    def config_after(self, inputs: KnownInputs) -> Config:
        size = inputs.vocabulary_size("encoder") if "encoder" in inputs else 1
        reader = pretrained_source(inputs.config("reader"), self.settings.max_length) if "reader" in inputs else None
        conditioning = conditioning_settings(
            self.variant, self.source, self.settings, inputs.corpus, size, reader, self.copying
        )
        return with_source(inputs.config("model"), conditioning)

    def run(self, inputs: Inputs, out: Path, context: Context) -> Summary:
        from subgraft.contrib.conditioning.condition import condition_model

        return condition_model(self, inputs, out)
