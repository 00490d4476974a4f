"""The recipe of the stage network."""

from __future__ import annotations

from typing import ClassVar

from subgraft.config.settings_base import SideName
from subgraft.config.corpora import Languages
from subgraft.config.initialisers import NetworkSettings
from subgraft.config.objectives import ObjectiveSettings
from subgraft.pipeline.recipes.trained_recipe import Beside, KnownSizes, TrainedRecipe


class NetworkRecipe(TrainedRecipe):
    """objectives: those that the model was pretrained on. No task is part of it: one network serves them all."""

    frozen_model: ClassVar[bool] = True

    objectives: tuple[ObjectiveSettings, ...]
    languages: Languages
    sides: tuple[SideName, ...]
    kd_weight: float
    network: NetworkSettings

    @property
    def trained_on(self) -> tuple[ObjectiveSettings, ...]:
        return self.objectives

    def beside_model(self, sizes: KnownSizes) -> Beside:
        """Its layers, each 8 w² weights (attention 4 w², feed-forward 4 w²), and what reads and writes rows."""
        width = self.network.width
        weights = self.network.layers * 8 * width**2 + (2 if sizes.tied else 3) * width * sizes.width
        return Beside(held=weights, trained=weights)
