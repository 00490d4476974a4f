"""Recipes of pretraining and finetuning, and what an estimate asks of every training."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Annotated, ClassVar, NamedTuple, Protocol

from pydantic import Field

from subgraft.config.corpora import Languages
from subgraft.config.models import ModelSettings
from subgraft.config.objectives import ObjectiveSettings, TaskObjectiveSettings, TranslationSettings
from subgraft.config.settings_base import Settings, SideName
from subgraft.config.training import FinetuneSettings, PretrainSettings, TrainingSettings
from subgraft.config.vocabularies import SamplingSettings
from subgraft.pipeline.recipes.recipe import FromSettings, ModelChange, Recipe, Unchanged


class KnownSizes(Protocol):
    """Sizes of what a training step is given, as far as they are known before it runs."""

    @property
    def width(self) -> int:
        """Of the model's embeddings."""

    @property
    def tied(self) -> bool:
        """Whether the model's output projection is its decoder's table."""

    def vocabulary(self, side: SideName) -> int:
        """Tokens of the input `vocabulary/SIDE`."""

    def tables(self, role: str) -> Mapping[SideName, int]:
        """Rows of each side's table of the model that is the input `role`."""

    def adapters(self, rank: int) -> int:
        """Numbers in the adapters of a rank beside all projections of the model."""

    def new_rows(self, sides: Collection[SideName], copy_shared_tokens: bool) -> ExtraParameters:
        """Numbers in the tables and biases of some sides, and in those rows of them that the input `upstream` lacks.

        All rows count as new where one of the vocabularies is not known yet: then the counts are upper bounds.
        """


class ExtraParameters(NamedTuple):
    """Parameters that a training has beside its model's: how many are in memory, and how many of these are trained.

    exact: whether that is how many they are, and not how many they may be at most.
    """

    held: int = 0
    trained: int = 0
    exact: bool = True


class EpochsOver(NamedTuple):
    """What the epochs of a training are over: the input of this role, which has this share of each batch's size."""

    role: str = "corpus"
    share: float = 1.0


class TrainedRecipe(Recipe):
    """Base of the recipes of trainings: by `training` and `seed`, on the text of the step's input `corpus`.

    frozen_model: whether the model itself is not trained.  new_tokens_only: whether only text is read that has tokens
    new to the model, so that nobody knows how much that is before the vocabularies are compared.
    """

    frozen_model: ClassVar[bool] = False
    new_tokens_only: ClassVar[bool] = False

    training: TrainingSettings
    seed: int

    @property
    def trained_on(self) -> tuple[TaskObjectiveSettings, ...]:
        """What decides which text is an example: of a task, the pairs of its corpus."""
        return (TranslationSettings(),)

    @property
    def trains_model(self) -> bool:
        """Whether any of the model's own parameters are trained, and not only what lies beside it."""
        return not self.frozen_model

    @property
    def epochs_over(self) -> EpochsOver:
        """What its steps are counted by, where they follow from epochs."""
        return EpochsOver()

    @property
    def frozen_tables(self) -> tuple[SideName, ...]:
        """Sides of a model that is trained whose tables are not."""
        return ()

    def extra_parameters(self, sizes: KnownSizes) -> ExtraParameters:
        """What is held and trained beside the model, counted in parameters."""
        del sizes
        return ExtraParameters()


class PretrainRecipe(TrainedRecipe):
    """model: what is built and pretrained; None where an input `model` is pretrained further.  sampling: how
    segmentations are sampled.  language_exponent: α of p^α, by which languages are drawn. Each is left out of the
    fingerprint where there is none.
    """

    objectives: tuple[ObjectiveSettings, ...]
    languages: Languages
    model: ModelSettings | None = Field(default=None, exclude_if=lambda given: given is None)
    training: PretrainSettings
    sampling: SamplingSettings | None = Field(default=None, exclude_if=lambda given: given is None)
    language_exponent: float | None = Field(default=None, exclude_if=lambda given: given is None)

    @property
    def model_change(self) -> ModelChange:
        return Unchanged() if self.model is None else FromSettings(self.model)

    @property
    def trained_on(self) -> tuple[ObjectiveSettings, ...]:
        return self.objectives


class FirstPhase(Settings):
    """share: of all steps, those that train the tables of `sides` alone."""

    share: Annotated[float, Field(gt=0, lt=1)]
    sides: tuple[SideName, ...]


class NewRows(Settings):
    """New rows are in the tables of `sides`.  copy_shared_tokens: whether tokens that upstream has kept their rows."""

    sides: tuple[SideName, ...]
    copy_shared_tokens: bool = Field(default=True, exclude_if=bool)


class FinetuneRecipe(TrainedRecipe):
    """first_phase: in which new tables alone are trained.  tie_to_sources: the sides whose tables stay tied to those of
    the model `upstream`.  fast_tables: the sides whose tables `training.embedding_learning_rate` is for, or which
    `train: body` leaves as they are.  new_rows: where those are that `training.rare_tokens` is for, or that are trained
    alone; `upstream` tells what is new.  objective: how the task's text is learnt.  text_objective: how the text beside
    that is learnt, which is the input `synthetic` where it was made into pairs, or else `text`.  drift: whether the
    curve tells how far the language model has moved from how it begins.  All are left out of the fingerprint where
    there is none, or the task's text is pairs.
    """

    # What its settings are called in a configuration.
    group: ClassVar[str] = "finetune"

    languages: Languages
    training: FinetuneSettings
    first_phase: FirstPhase | None = Field(default=None, exclude_if=lambda given: given is None)
    tie_to_sources: tuple[SideName, ...] = Field(default=(), exclude_if=lambda given: not given)
    fast_tables: tuple[SideName, ...] = Field(default=(), exclude_if=lambda given: not given)
    new_rows: NewRows | None = Field(default=None, exclude_if=lambda given: given is None)
    objective: TaskObjectiveSettings = Field(
        default=TranslationSettings(), exclude_if=lambda given: given == TranslationSettings()
    )

    text_objective: TaskObjectiveSettings | None = Field(default=None, exclude_if=lambda given: given is None)
    drift: bool = Field(default=False, exclude_if=lambda given: not given)

    @property
    def trained_on(self) -> tuple[TaskObjectiveSettings, ...]:
        return (self.objective,)

    @property
    def epochs_over(self) -> EpochsOver:
        if self.text_objective is None:
            return EpochsOver()
        share = self.training.monolingual_fraction
        return EpochsOver(self.text_role) if share == 1.0 else EpochsOver(share=1.0 - share)

    @property
    def text_role(self) -> str:
        """The input that the text beside the task's is."""
        made = self.text_objective is not None and self.text_objective.needs_pairs
        return "synthetic" if made else "text"

    @property
    def frozen_tables(self) -> tuple[SideName, ...]:
        return self.fast_tables if self.training.rate_of_tables == 0 else ()

    @property
    def trains_model(self) -> bool:
        return self.training.train in ("all", "body")

    def extra_parameters(self, sizes: KnownSizes) -> ExtraParameters:
        """Old tables are trained beside the rests of the new ones, which are as large as the tables they stand for.

        New rows that are trained alone are put into a copy of their tables.
        """
        if self.training.train == "new-rows" and self.new_rows is not None:
            return sizes.new_rows(self.new_rows.sides, self.new_rows.copy_shared_tokens)
        if self.training.adapters is not None:
            adapters = sizes.adapters(self.training.adapters.rank)
            return ExtraParameters(held=adapters, trained=adapters)
        if not self.tie_to_sources:
            return ExtraParameters()
        old, new = (sum(sizes.tables(role)[side] for side in self.tie_to_sources) for role in ("upstream", "model"))
        return ExtraParameters(held=(old + new) * sizes.width, trained=old * sizes.width)


class EmbeddingWarmupRecipe(FinetuneRecipe):
    """A finetuning of new rows alone, on nothing but the domain's text."""

    group: ClassVar[str] = "embedding_warmup_training"
