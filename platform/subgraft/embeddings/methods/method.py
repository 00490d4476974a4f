"""What a method of new embeddings declares. A module of methods loads no torch: what makes rows imports it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Self

from pydantic import Field

from subgraft.config.corpora import Languages
from subgraft.config.settings_base import SideName, StaticAlgorithm
from subgraft.training.objectives.registry import ObjectiveSettings
from subgraft.training.stage import TrainedStage

if TYPE_CHECKING:
    from subgraft.embeddings.initialisers.new_rows import InitialiserInputs, NewRows

StartName = Literal["mean", "avg", "att", "patt"]


class MethodStage(TrainedStage):
    """Base of the steps that train what a method needs, with the model frozen."""

    frozen_model: ClassVar[bool] = True

    languages: Languages

    @classmethod
    def of(cls, **settings: Any) -> Self:
        """The stage with those of an experiment's settings that it has as fields."""
        return cls(**{name: value for name, value in settings.items() if name in cls.model_fields})


def _have_no_separator(objectives: tuple[ObjectiveSettings, ...]) -> bool:
    return not any(each.continues for each in objectives)


class LearningStage(MethodStage):
    """Base of the steps that learn rows from the pairs of the input `corpus`; `Comparison.learning_stage` fills fields.

    Attributes:
        settings_field: The name of the field with the method's own settings, if it has any.
        decoder_alone: Whether it only trains a decoder's rows.
        reads_upstream_text: Whether it reads text of upstream.corpus, if there is one, as the input `other`.
        objectives: Of the pretraining: a language model's text begins with the token that stood between its texts.
    """

    settings_field: ClassVar[str] = ""
    decoder_alone: ClassVar[bool] = False
    reads_upstream_text: ClassVar[bool] = False

    objectives: tuple[ObjectiveSettings, ...] = Field(default=(), exclude_if=_have_no_separator)

    @property
    def sides_with_text(self) -> tuple[SideName, ...]:
        """The sides that also read monolingual text: the encoder an input `text`, the decoder pairs, `synthetic`."""
        return ()

    def require(self, *, translates: bool) -> None:
        """Raise ValueError, with the setting to change, for a model that cannot have it.

        translates: whether the model can translate before it is finetuned.
        """


class AnyGeneratorStage(MethodStage):
    """Base of the trainings of generators; `objectives` are those of the model's pretraining.

    With `one_vocabulary` both sides get the same new vocabulary. A model that shares its embeddings then trains one
    generator, the decoder's, for both.
    """

    objectives: tuple[ObjectiveSettings, ...]
    sides: tuple[SideName, ...]
    one_vocabulary: bool
    kd_weight: float

    @property
    def trained_on(self) -> tuple[ObjectiveSettings, ...]:
        return self.objectives

    @property
    def reads_new_vocabulary(self) -> bool:
        """Whether it depends on the task's vocabularies."""
        return False


# In each preset, for the trainings of all methods.
_PRESETS: Mapping[str, Mapping[str, Any]] = {
    "small": {"batch_size": 4000, "warmup_steps": 20, "label_smoothing": 0.0, "precision": "auto"},
    "gpu": {"batch_size": 8000, "warmup_steps": 50, "label_smoothing": 0.0, "precision": "bf16"},
    "paper": {"batch_size": 8000, "warmup_steps": 200, "label_smoothing": 0.0, "precision": "bf16"},
}


@dataclass(frozen=True)
class TrainingGroup:
    """The settings of a method's training: their name in an experiment, and their own values in each preset."""

    name: str
    small: Mapping[str, Any]
    gpu: Mapping[str, Any]
    paper: Mapping[str, Any]

    def preset(self, name: str) -> dict[str, Any]:
        """All values in a preset."""
        return {**_PRESETS[name], **getattr(self, name)}


@dataclass(frozen=True, kw_only=True)
class MethodSpec:
    """A method of new embeddings: an initialiser.

    Attributes:
        name: In configurations.
        start: How a new token's embedding starts, in docs/guide-experiments.md.
        source: Who published it, in docs/guide-experiments.md.
        rows: The function that makes rows; None: a step has learned them.
        training: Of its generator, or of its rows.
        learning: The step that learns its rows, which the transfer reads.
        mixes: Whether every new row is a mixture of upstream rows, so that it can stay tied to them.
        generator: Whether a generator makes the rows, trained or not.
        trains: The step that trains the generator.
        static: The algorithm of the static embeddings that it needs.
        unmapped: Whether the static embeddings are the rows themselves, so that their widths must be equal.
        donor: Whether rows are mapped from a second model that has the new tokens.
        seeded: Whether rows depend on a seed.
        random: Whether rows depend only on the seed and on the shape of the tables.
    """

    name: str
    start: str
    source: str
    rows: Callable[[InitialiserInputs], NewRows] | None = None
    training: TrainingGroup | None = None
    learning: type[LearningStage] | None = None
    mixes: bool = False
    generator: bool = False
    trains: type[AnyGeneratorStage] | None = None
    static: StaticAlgorithm | None = None
    unmapped: bool = False
    donor: bool = False
    seeded: bool = False
    random: bool = False

    @property
    def trained(self) -> str | None:
        """The kind of the trained generator that makes the rows."""
        return self.name if self.trains else None

    @property
    def has_start(self) -> bool:
        """Whether its training starts from the rows of another method."""
        return self.learning is not None and "starts_from" in self.learning.model_fields

    @property
    def group(self) -> str:
        """The name of its settings in an experiment, apart from those of its training."""
        return self.name.replace("-", "_")

    def new_rows(self, request: InitialiserInputs) -> NewRows:
        """The rows of new tokens. Raises UserError if an input is missing, or is another model's."""
        if self.rows is not None:
            return self.rows(request)
        from subgraft.embeddings.initialisers.learned_embeddings import take_distilled

        return take_distilled(request, self.name)
