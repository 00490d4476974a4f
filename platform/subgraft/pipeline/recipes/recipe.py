"""What every recipe answers of its step, before anything runs: what the step makes of a model."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from subgraft.config.conditioning import CopyingName, ReadingSettings, SourceName, VariantName
from subgraft.config.models import ModelSettings
from subgraft.config.settings_base import Settings, SideName


@dataclass(frozen=True)
class FromCheckpoint:
    """The model of a checkpoint: a directory or a hub id."""

    checkpoint: str


@dataclass(frozen=True)
class FromSettings:
    """A model of these settings, with the vocabularies that are the step's inputs `encoder` and `decoder`."""

    settings: ModelSettings


@dataclass(frozen=True)
class OnBothSides:
    """The encoder-decoder whose two sides are the encoder that is the step's input `model`."""


@dataclass(frozen=True)
class WithVocabularies:
    """The input `model` with other vocabularies on these sides: the step's inputs `vocabulary/SIDE`."""

    sides: tuple[SideName, ...]


@dataclass(frozen=True)
class WithSource:
    """The language model that is the step's input `model`, with a source such as its input `corpus` has.

    A text is read in the vocabulary that is its input `encoder`, or by the model that is its input `reader`.
    """

    variant: VariantName
    source: SourceName
    settings: ReadingSettings
    copying: CopyingName | None = None


@dataclass(frozen=True)
class Unchanged:
    """A model of the same shape as the input `model`."""


ModelChange: TypeAlias = FromCheckpoint | FromSettings | OnBothSides | WithVocabularies | WithSource | Unchanged


class Recipe(Settings):
    """Base of every stage's recipe. What is not a field is not in the fingerprint."""

    @property
    def model_change(self) -> ModelChange:
        """The shape of the model that the step makes, where it makes one."""
        return Unchanged()
