"""The recipe of the stage pretrain."""

from __future__ import annotations

from pydantic import Field

from subgraft.config.base import Settings, UpstreamObjective
from subgraft.config.corpora import Languages
from subgraft.config.domains import MaskingSettings, NoiseSettings
from subgraft.config.training import ModelSettings, ModelTrainingSettings
from subgraft.config.vocabularies import SamplingSettings


class PretrainRecipe(Settings):
    """model: what is built and pretrained; None where an input `model` is pretrained further.  sampling: how
    segmentations are sampled.  noise, masking: for the objectives denoising and masked.

    Each is left out of the fingerprint where there is none.
    """

    objective: UpstreamObjective
    languages: Languages
    model: ModelSettings | None = Field(default=None, exclude_if=lambda given: given is None)
    training: ModelTrainingSettings
    seed: int
    sampling: SamplingSettings | None = Field(default=None, exclude_if=lambda given: given is None)
    noise: NoiseSettings | None = Field(default=None, exclude_if=lambda given: given is None)
    masking: MaskingSettings | None = Field(default=None, exclude_if=lambda given: given is None)
