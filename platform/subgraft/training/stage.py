"""A stage: its fields are what it is asked to do, `run` makes one artifact. The bases of all stages and of trainings.

`pipeline.stages.registry` lists the stages. A stage's module loads neither torch nor Ray: `run` imports what computes.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, NamedTuple, Protocol, TypeAlias

from typing_extensions import TypeVar

from subgraft.config.any_objective import AnyObjective
from subgraft.config.conditioning import CopyingName, ReadingSettings, SourceName, VariantName
from subgraft.config.corpora import Languages
from subgraft.config.models import ModelSettings
from subgraft.config.objectives import TranslationSettings
from subgraft.config.settings_base import Settings, SideName
from subgraft.config.training import TrainingSettings

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


class KnownSizes(Protocol):
    """Those sizes of a training step's inputs that are known before it runs."""

    @property
    def width(self) -> int:
        """Width of the model's embeddings."""

    @property
    def tied(self) -> bool:
        """Whether the model's output projection is its decoder's embeddings."""

    def vocabulary(self, side: SideName) -> int:
        """Tokens of the input `vocabulary/SIDE`."""

    def tables(self, role: str) -> Mapping[SideName, int]:
        """Rows of each side's embeddings of the input model `role`."""

    def adapters(self, rank: int) -> int:
        """Parameters of adapters of a rank for all projections of the model."""

    def new_rows(self, sides: Collection[SideName], copy_shared_tokens: bool) -> ExtraParameters:
        """Parameters in the embeddings and biases of some sides, and in their rows that the input `upstream` lacks.

        All rows count as new if one of the vocabularies is not known yet: then the counts are upper bounds.
        """


class ExtraParameters(NamedTuple):
    """Parameters of a training in addition to its model's.

    Attributes:
        held: How many are held in memory.
        trained: How many are trained.
        exact: Whether the counts are exact, or else upper bounds.
    """

    held: int = 0
    trained: int = 0
    exact: bool = True


class EpochsOver(NamedTuple):
    """The input that epochs count, by role, and its share of each batch."""

    role: str = "corpus"
    share: float = 1.0


class TrainedStage(Stage):
    """Base of the trainings on the input `corpus`.

    Attributes:
        frozen_model: Whether the model itself is frozen.
        new_tokens_only: Whether only text with tokens new to the model is read, so that its amount is unknown before
            the vocabularies are compared.
    """

    distributed: ClassVar[bool] = True
    accelerated: ClassVar[bool] = True
    frozen_model: ClassVar[bool] = False
    new_tokens_only: ClassVar[bool] = False

    training: TrainingSettings
    seed: int

    @property
    def trained_on(self) -> tuple[AnyObjective, ...]:
        """The objectives that make examples of the corpus: by default, translation of its pairs."""
        return (TranslationSettings(),)

    @property
    def pairs_between(self) -> tuple[Languages, ...]:
        """The languages of the pairs that it reads; none for text that is not parallel."""
        languages: Languages | None = getattr(self, "languages", None)
        paired = any(objective.needs_pairs for objective in self.trained_on)
        return (languages,) if languages is not None and paired else ()

    @property
    def trains_model(self) -> bool:
        """Whether any of the model's own parameters are trained, rather than only extra parameters."""
        return not self.frozen_model

    @property
    def epochs_over(self) -> EpochsOver:
        """The input that its epochs count."""
        return EpochsOver()

    @property
    def frozen_embedding_sides(self) -> tuple[SideName, ...]:
        """Sides whose embeddings are frozen while the rest of the model is trained."""
        return ()

    def extra_parameters(self, sizes: KnownSizes) -> ExtraParameters:
        """Parameters that are held and trained in addition to the model's."""
        del sizes
        return ExtraParameters()
