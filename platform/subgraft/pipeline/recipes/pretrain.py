"""The recipe of the stage pretrain."""

from __future__ import annotations

from pydantic import Field

from subgraft.config.corpora import Languages
from subgraft.config.models import ModelSettings
from subgraft.config.objectives import ObjectiveSettings
from subgraft.config.training import PretrainSettings
from subgraft.config.vocabularies import SamplingSettings
from subgraft.pipeline.recipes.recipe import Made, ModelChange, Unchanged
from subgraft.pipeline.recipes.trained_recipe import TrainedRecipe


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
        return Unchanged() if self.model is None else Made(self.model)

    @property
    def trained_on(self) -> tuple[ObjectiveSettings, ...]:
        return self.objectives
