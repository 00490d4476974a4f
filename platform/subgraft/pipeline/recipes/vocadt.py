"""The recipe of the stage VocADT."""

from __future__ import annotations

from typing import ClassVar

from pydantic import Field

from subgraft.config.settings_base import SideName
from subgraft.config.corpora import Languages
from subgraft.pipeline.recipes.trained_recipe import Beside, KnownSizes, TrainedRecipe


class VocadtRecipe(TrainedRecipe):
    """pairs: the adapters are trained on only this many of the training pairs, as the finetuning is, beside all of the
    input `synthetic`, where that is given: pairs that were made of text.
    """

    frozen_model: ClassVar[bool] = True

    languages: Languages
    sides: tuple[SideName, ...]
    pairs: int | None = Field(default=None, exclude_if=lambda given: given is None)

    def beside_model(self, sizes: KnownSizes) -> Beside:
        """The old tables and the new ones stand beside the model's; a weight for each pair of a new and an old token is
        trained, twice where a projection is no input table. As if all tokens were new, which is known only when
        vocabularies are compared.
        """
        old, held, trained = sizes.tables("model"), 0, 0
        for side in self.sides:
            tables = 2 if side == "decoder" and not sizes.tied else 1
            trained += tables * sizes.vocabulary(side) * old[side]
            held += tables * (sizes.vocabulary(side) + old[side]) * sizes.width
        return Beside(held=trained + held, trained=trained)
