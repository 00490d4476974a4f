"""The recipe of the stage generator."""

from __future__ import annotations

from typing import ClassVar, Literal

from subgraft.config.settings_base import SideName
from subgraft.config.corpora import Languages
from subgraft.config.initialisers import GeneratorSettings
from subgraft.config.objectives import ObjectiveSettings
from subgraft.pipeline.recipes.trained_recipe import Beside, KnownSizes, TrainedRecipe

MixingKind = Literal["att", "patt"]
# Rows of weights that a generator has, by its kind: one for all similar tokens, or one for each of the six relations.
_ROWS = {"att": 1, "patt": 6}


class GeneratorRecipe(TrainedRecipe):
    """objectives: those that the model was pretrained on."""

    frozen_model: ClassVar[bool] = True

    objectives: tuple[ObjectiveSettings, ...]
    languages: Languages
    sides: tuple[SideName, ...]
    kind: MixingKind
    kd_weight: float
    generator: GeneratorSettings

    @property
    def trained_on(self) -> tuple[ObjectiveSettings, ...]:
        return self.objectives

    def beside_model(self, sizes: KnownSizes) -> Beside:
        weights = _ROWS[self.kind] * sizes.width
        return Beside(held=weights, trained=weights)
