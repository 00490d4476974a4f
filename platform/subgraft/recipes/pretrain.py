"""The recipe of the stage pretrain."""

from __future__ import annotations

from pydantic import Field

from subgraft.config.base import UpstreamObjective
from subgraft.config.corpora import Languages
from subgraft.config.domains import MaskingSettings, NoiseSettings
from subgraft.config.models import ModelSettings
from subgraft.config.vocabularies import SamplingSettings
from subgraft.recipes.recipe import Made
from subgraft.recipes.trained import TrainedRecipe


class PretrainRecipe(TrainedRecipe):
    """sampling: how segmentations are sampled.  noise, masking: for the objectives denoising and masked.

    Each is left out of the fingerprint where there is none.
    """

    objective: UpstreamObjective
    languages: Languages
    model: ModelSettings
    sampling: SamplingSettings | None = Field(default=None, exclude_if=lambda given: given is None)
    noise: NoiseSettings | None = Field(default=None, exclude_if=lambda given: given is None)
    masking: MaskingSettings | None = Field(default=None, exclude_if=lambda given: given is None)

    @property
    def model_change(self) -> Made:
        return Made(self.model)

    @property
    def sides_alone(self) -> bool:
        return self.objective != "translation"
