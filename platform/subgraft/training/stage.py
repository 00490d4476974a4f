"""A stage: its fields are what it is asked to do, `run` makes one artifact. The bases of all stages and of trainings.

`pipeline.stages.registry` lists the stages. A stage's module loads neither torch nor Ray: `run` imports what computes.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, NamedTuple, Protocol, TypeAlias

from typing_extensions import TypeVar

from subgraft.config.corpora import Languages
from subgraft.config.settings_base import Settings, SideName
from subgraft.config.training import TrainingSettings
from subgraft.training.objectives.objective import AnyObjective
from subgraft.training.objectives.translation import TranslationSettings

if TYPE_CHECKING:
    from subgraft.config.models import ModelSettings
    from subgraft.data.text.corpus import Corpus
    from subgraft.modeling.families import Config
    from subgraft.training.context import Context, Json

Inputs: TypeAlias = Mapping[str, Path]  # the directory of each input, by role
Summary: TypeAlias = "dict[str, Json]"


class KnownInputs(Protocol):
    """What is known of a step's inputs before it runs."""

    def __contains__(self, role: str) -> bool:
        """Whether there is such an input."""

    def config(self, role: str) -> Config:
        """config.json of the input model `role`, or the entries that determine its size and layers."""

    def vocabulary_size(self, role: str) -> int:
        """Tokens of the input vocabulary `role`."""

    @property
    def corpus(self) -> Corpus | None:
        """The input `corpus`, if it exists already."""


def built_config(settings: ModelSettings, inputs: KnownInputs) -> Config:
    """config.json of a new model with the vocabularies of the inputs `encoder` and `decoder`."""
    from subgraft.modeling.families import config_dict

    return config_dict(settings, *(inputs.vocabulary_size(side) for side in ("encoder", "decoder")))


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

    def config_after(self, inputs: KnownInputs) -> Config:
        """config.json of the model that the step makes, before it runs: by default that of the input `model`.

        Only the entries on which families' answers depend, such as counts of parameters, are certain.
        """
        return inputs.config("model")

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

    def new_tokens(self, side: SideName) -> int:
        """How many of these tokens the model lacks at most: those that are added, or all of another vocabulary."""

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
