"""What an estimate asks of the recipe of a training: how it reads its text, and what it holds and trains."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import ClassVar, NamedTuple, Protocol

from subgraft.config.settings_base import SideName
from subgraft.config.objectives import TaskObjectiveSettings, TranslationSettings
from subgraft.config.training import TrainingSettings
from subgraft.pipeline.recipes.recipe import Recipe


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

    def new_rows(self, sides: Collection[SideName], keep_seen: bool) -> Beside:
        """Numbers in the tables and biases of some sides, and in those rows of them that the input `upstream` lacks.

        All rows count as new where one of the vocabularies is not known yet: then the counts are upper bounds.
        """


class Beside(NamedTuple):
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

    def beside_model(self, sizes: KnownSizes) -> Beside:
        """What is held and trained beside the model, counted in parameters."""
        del sizes
        return Beside()
