"""The recipe of the stage token distillation."""

from __future__ import annotations

from typing import ClassVar

from subgraft.config.settings_base import SideName
from subgraft.config.corpora import Languages
from subgraft.config.initialisers import TokenDistillationSettings
from subgraft.pipeline.recipes.trained_recipe import Beside, KnownSizes, TrainedRecipe


class TokenDistillationRecipe(TrainedRecipe):
    """With an input `text`, the encoder reads its source too; with an input `synthetic`, the decoder these pairs."""

    frozen_model: ClassVar[bool] = True
    new_tokens_only: ClassVar[bool] = True

    languages: Languages
    sides: tuple[SideName, ...]
    distillation: TokenDistillationSettings

    def beside_model(self, sizes: KnownSizes) -> Beside:
        """As if all tokens were new, which is known only when vocabularies are compared; sides are learnt in turn."""
        rows = max(map(sizes.vocabulary, self.sides)) * sizes.width
        return Beside(held=rows, trained=rows)
