"""The recipe of the stage generator."""

from __future__ import annotations

from typing import Literal

from subgraft.config.base import Settings, SideName
from subgraft.config.corpora import Languages
from subgraft.config.initialisers import GeneratorSettings
from subgraft.config.objectives import ObjectiveSettings
from subgraft.config.training import TrainingSettings


class GeneratorRecipe(Settings):
    """objectives: those that the model was pretrained on."""

    objectives: tuple[ObjectiveSettings, ...]
    languages: Languages
    sides: tuple[SideName, ...]
    kind: Literal["att", "patt"]
    kd_weight: float
    generator: GeneratorSettings
    training: TrainingSettings
    seed: int
