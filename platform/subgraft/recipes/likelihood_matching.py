"""The recipe of the stage likelihood matching."""

from __future__ import annotations

from subgraft.config.base import Settings
from subgraft.config.corpora import Languages
from subgraft.config.initialisers import LikelihoodMatchingSettings
from subgraft.config.systems import StartName
from subgraft.config.training import TrainingSettings


class LikelihoodMatchingRecipe(Settings):
    """starts_from: whose rows training begins with.  max_similar: of avg."""

    languages: Languages
    starts_from: StartName
    max_similar: int
    matching: LikelihoodMatchingSettings
    training: TrainingSettings
    seed: int
