"""The recipe of the stage pretrain."""

from __future__ import annotations

from pydantic import Field

from subgraft.config.base import Settings
from subgraft.config.corpora import Languages
from subgraft.config.objectives import ObjectiveSettings
from subgraft.config.training import ModelSettings, TrainingSettings
from subgraft.config.vocabularies import SamplingSettings


class PretrainRecipe(Settings):
    """sampling: how segmentations are sampled; left out of the fingerprint where they are not."""

    objectives: tuple[ObjectiveSettings, ...]
    languages: Languages
    model: ModelSettings
    training: TrainingSettings
    seed: int
    sampling: SamplingSettings | None = Field(default=None, exclude_if=lambda given: given is None)
