"""The recipe of the stage token distillation."""

from __future__ import annotations

from subgraft.config.base import Settings, SideName
from subgraft.config.corpora import Languages
from subgraft.config.initialisers import TokenDistillationSettings
from subgraft.config.training import TrainingSettings


class TokenDistillationRecipe(Settings):
    languages: Languages
    sides: tuple[SideName, ...]
    distillation: TokenDistillationSettings
    training: TrainingSettings
    seed: int
