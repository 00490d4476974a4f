"""The recipe of the stage generator."""

from __future__ import annotations

from typing import ClassVar, Literal

from pydantic import Field

from subgraft.config.base import SideName, UpstreamObjective
from subgraft.config.corpora import Languages
from subgraft.config.domains import MaskingSettings, NoiseSettings
from subgraft.config.initialisers import GeneratorSettings
from subgraft.recipes.trained import Beside, KnownSizes, TrainedRecipe

# Rows of weights that a generator has, by its kind: one for all similar tokens, or one for each of the six relations.
_ROWS = {"att": 1, "patt": 6}


class GeneratorRecipe(TrainedRecipe):
    """noise, masking: for the objectives denoising and masked; left out of the fingerprint elsewhere."""

    frozen_model: ClassVar[bool] = True

    objective: UpstreamObjective
    languages: Languages
    sides: tuple[SideName, ...]
    kind: Literal["att", "patt"]
    kd_weight: float
    generator: GeneratorSettings
    noise: NoiseSettings | None = Field(default=None, exclude_if=lambda given: given is None)
    masking: MaskingSettings | None = Field(default=None, exclude_if=lambda given: given is None)

    @property
    def sides_alone(self) -> bool:
        return self.objective != "translation"

    def beside_model(self, sizes: KnownSizes) -> Beside:
        weights = _ROWS[self.kind] * sizes.width
        return Beside(held=weights, trained=weights)
