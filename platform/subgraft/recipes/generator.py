"""The recipe of the stage generator."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from subgraft.config.base import Settings, SideName, UpstreamObjective
from subgraft.config.corpora import Languages
from subgraft.config.domains import MaskingSettings, NoiseSettings
from subgraft.config.initialisers import GeneratorSettings
from subgraft.config.training import TrainingSettings


class GeneratorRecipe(Settings):
    """noise, masking: for the objectives denoising and masked; left out of the fingerprint elsewhere."""

    objective: UpstreamObjective
    languages: Languages
    sides: tuple[SideName, ...]
    kind: Literal["att", "patt"]
    kd_weight: float
    generator: GeneratorSettings
    training: TrainingSettings
    seed: int
    noise: NoiseSettings | None = Field(default=None, exclude_if=lambda given: given is None)
    masking: MaskingSettings | None = Field(default=None, exclude_if=lambda given: given is None)
