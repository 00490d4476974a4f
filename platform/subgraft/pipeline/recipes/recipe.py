"""The base of all recipes, and the change to a model that a recipe announces before its step runs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

from subgraft.config.conditioning import CopyingName, ReadingSettings, SourceName, VariantName
from subgraft.config.models import ModelSettings
from subgraft.config.settings_base import Settings, SideName


@dataclass(frozen=True)
class FromCheckpoint:
    """The model of a checkpoint, a directory or a hub id, with codes for languages that it lacks."""

    checkpoint: str
    new_languages: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class FromSettings:
    """A model of these settings, with the vocabularies of the inputs `encoder` and `decoder`."""

    settings: ModelSettings


@dataclass(frozen=True)
class OnBothSides:
    """The encoder-decoder with the input `model`, an encoder, on both sides."""


@dataclass(frozen=True)
class WithVocabularies:
    """The input `model` with the inputs `vocabulary/SIDE` on these sides."""

    sides: tuple[SideName, ...]


@dataclass(frozen=True)
class WithSource:
    """The input `model`, a language model, with a source as in the input `corpus`.

    A source text is read in the vocabulary of the input `encoder`, or by the input model `reader`.
    """

    variant: VariantName
    source: SourceName
    settings: ReadingSettings
    copying: CopyingName | None = None


@dataclass(frozen=True)
class WithSourceEncoder:
    """The input `model` behind a new encoder with `layers` layers, in the vocabulary of the input `encoder`."""

    layers: int


@dataclass(frozen=True)
class WithContext:
    """The input `model` with an encoder that reads the `sentences` preceding sentences."""

    sentences: int


@dataclass(frozen=True)
class Unchanged:
    """A model of the same shape as the input `model`."""


@dataclass(frozen=True)
class WithNextSentence:
    """The model after another change, with a head for next sentences."""

    before: FromSettings | Unchanged


ModelChange: TypeAlias = (
    FromCheckpoint
    | FromSettings
    | OnBothSides
    | WithVocabularies
    | WithSource
    | WithSourceEncoder
    | WithContext
    | WithNextSentence
    | Unchanged
)


class Recipe(Settings):
    """Base of every stage's recipe. Only fields are part of the fingerprint."""

    @property
    def model_change(self) -> ModelChange:
        """The shape of the model that the step makes, if it makes one."""
        return Unchanged()
