"""The recipe of the stage likelihood matching."""

from __future__ import annotations

from typing import ClassVar

from subgraft.config.corpora import Languages
from subgraft.config.initialisers import LikelihoodMatchingSettings
from subgraft.config.systems import StartName
from subgraft.pipeline.recipes.trained_recipe import Beside, KnownSizes, TrainedRecipe


class LikelihoodMatchingRecipe(TrainedRecipe):
    """starts_from: whose rows training begins with.  max_similar: of avg.

    With an input `synthetic`, it reads these pairs too.
    """

    frozen_model: ClassVar[bool] = True
    new_tokens_only: ClassVar[bool] = True

    languages: Languages
    starts_from: StartName
    max_similar: int
    matching: LikelihoodMatchingSettings

    def beside_model(self, sizes: KnownSizes) -> Beside:
        """The student's tables stand beside the model's; what is added to them is trained, a bias with it.

        As if all tokens were new, which is known only when vocabularies are compared.
        """
        added = sizes.vocabulary("decoder") * (sizes.width * (1 if sizes.tied else 2) + 1)
        return Beside(held=2 * added, trained=added)
