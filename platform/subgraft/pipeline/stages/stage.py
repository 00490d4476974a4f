"""A stage: its fields are what it is asked to do, `run` makes one artifact. The base of all stages.

`stages.registry` lists them. A stage's module loads neither torch nor Ray: `run` imports what computes.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, TypeAlias

from typing_extensions import TypeVar

from subgraft.config.conditioning import CopyingName, ReadingSettings, SourceName, VariantName
from subgraft.config.models import ModelSettings
from subgraft.config.settings_base import Settings, SideName

if TYPE_CHECKING:
    from subgraft.training.context import Context, Json

Inputs: TypeAlias = Mapping[str, Path]  # the directory of each input, by role
Summary: TypeAlias = "dict[str, Json]"


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


class Stage(Settings):
    """Base of all stages. Only fields, without the excluded ones, are part of the fingerprint: the recipe.

    Attributes:
        stage_name: Part of the fingerprint.
        revision: Increased when the result changes for the same fields; part of the fingerprint.
        distributed: Whether it may run on several Ray Train workers, using torch.distributed.
        accelerated: Whether it uses a GPU if the runtime has one.
    """

    stage_name: ClassVar[str]
    revision: ClassVar[int]
    distributed: ClassVar[bool] = False
    accelerated: ClassVar[bool] = False

    @property
    def model_change(self) -> ModelChange:
        """The shape of the model that the step makes, if it makes one."""
        return Unchanged()

    def run(self, inputs: Inputs, out: Path, context: Context) -> Summary:
        """Write the artifact into `out`, an existing empty directory, and return the summary for its record."""
        raise NotImplementedError


# Without a type argument, a `Step` takes any stage.
S = TypeVar("S", bound=Stage, covariant=True, default=Stage)
