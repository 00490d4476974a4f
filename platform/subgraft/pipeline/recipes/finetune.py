"""The recipe of the stage finetune."""

from __future__ import annotations

from typing import Annotated, ClassVar

from pydantic import Field

from subgraft.config.settings_base import Settings, SideName
from subgraft.config.corpora import Languages
from subgraft.config.objectives import TaskObjectiveSettings, TranslationSettings
from subgraft.config.training import FinetuneSettings
from subgraft.pipeline.recipes.trained_recipe import Beside, EpochsOver, KnownSizes, TrainedRecipe


class FirstPhase(Settings):
    """share: of all steps, those that train the tables of `sides` alone."""

    share: Annotated[float, Field(gt=0, lt=1)]
    sides: tuple[SideName, ...]


class NewRows(Settings):
    """Where new rows are: in the tables of `sides`.  keep_seen: whether tokens that upstream has kept their rows."""

    sides: tuple[SideName, ...]
    keep_seen: bool = Field(default=True, exclude_if=bool)


class FinetuneRecipe(TrainedRecipe):
    """first_phase: in which new tables alone are trained.  attached: the sides whose tables stay attached to those
    of the model `upstream`.  fast_tables: the sides whose tables `training.embedding_learning_rate` is for, or which
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
    attached: tuple[SideName, ...] = Field(default=(), exclude_if=lambda given: not given)
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
        share = self.training.text_share
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

    def beside_model(self, sizes: KnownSizes) -> Beside:
        """Old tables are trained beside the rests of the new ones, which are as large as the tables they stand for.

        New rows that are trained alone are put into a copy of their tables.
        """
        if self.training.train == "new-rows" and self.new_rows is not None:
            return sizes.new_rows(self.new_rows.sides, self.new_rows.keep_seen)
        if self.training.adapters is not None:
            adapters = sizes.adapters(self.training.adapters.rank)
            return Beside(held=adapters, trained=adapters)
        if not self.attached:
            return Beside()
        old, new = (sum(sizes.tables(role)[side] for side in self.attached) for role in ("upstream", "model"))
        return Beside(held=(old + new) * sizes.width, trained=old * sizes.width)
