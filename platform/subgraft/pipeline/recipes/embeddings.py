"""Recipes of the stages that train generators and new embeddings."""

from __future__ import annotations

from typing import ClassVar, Literal

from pydantic import Field

from subgraft.config.corpora import Languages
from subgraft.config.initialisers import (
    GeneratorSettings,
    LikelihoodMatchingSettings,
    NetworkSettings,
    TokenDistillationSettings,
)
from subgraft.config.objectives import ObjectiveSettings
from subgraft.config.settings_base import SideName
from subgraft.config.systems import StartName
from subgraft.pipeline.recipes.recipe import Recipe
from subgraft.pipeline.recipes.training import ExtraParameters, KnownSizes, TrainedRecipe

MixingKind = Literal["att", "patt"]
# Rows of weights that a generator has, by its kind: one for all similar tokens, or one for each of the six relations.
_ROWS = {"att": 1, "patt": 6}


class GeneratorRecipe(TrainedRecipe):
    """objectives: those that the model was pretrained on."""

    frozen_model: ClassVar[bool] = True

    objectives: tuple[ObjectiveSettings, ...]
    languages: Languages
    sides: tuple[SideName, ...]
    kind: MixingKind
    kd_weight: float
    generator: GeneratorSettings

    @property
    def trained_on(self) -> tuple[ObjectiveSettings, ...]:
        return self.objectives

    def extra_parameters(self, sizes: KnownSizes) -> ExtraParameters:
        weights = _ROWS[self.kind] * sizes.width
        return ExtraParameters(held=weights, trained=weights)


class NetworkRecipe(TrainedRecipe):
    """objectives: those that the model was pretrained on. No task is part of it: one network serves them all."""

    frozen_model: ClassVar[bool] = True

    objectives: tuple[ObjectiveSettings, ...]
    languages: Languages
    sides: tuple[SideName, ...]
    kd_weight: float
    network: NetworkSettings

    @property
    def trained_on(self) -> tuple[ObjectiveSettings, ...]:
        return self.objectives

    def extra_parameters(self, sizes: KnownSizes) -> ExtraParameters:
        """Its layers, each 8 w² weights (attention 4 w², feed-forward 4 w²), and what reads and writes rows."""
        width = self.network.width
        weights = self.network.layers * 8 * width**2 + (2 if sizes.tied else 3) * width * sizes.width
        return ExtraParameters(held=weights, trained=weights)


# What a trained network consists of, as `embeddings.generators.network` writes it.
NETWORK_FILES = ("generator.json", "network.safetensors")


class ImportedNetworkRecipe(Recipe):
    """digest: of the network's files; where they lie does not count.  sides: for which there must be one."""

    digest: str
    sides: tuple[SideName, ...]
    directory: str = Field(exclude=True)


class TokenDistillationRecipe(TrainedRecipe):
    """With an input `text`, the encoder reads its source too; with an input `synthetic`, the decoder these pairs."""

    frozen_model: ClassVar[bool] = True
    new_tokens_only: ClassVar[bool] = True

    languages: Languages
    sides: tuple[SideName, ...]
    distillation: TokenDistillationSettings

    def extra_parameters(self, sizes: KnownSizes) -> ExtraParameters:
        """As if all tokens were new, which is known only when vocabularies are compared; sides are learnt in turn."""
        rows = max(map(sizes.vocabulary, self.sides)) * sizes.width
        return ExtraParameters(held=rows, trained=rows)


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

    def extra_parameters(self, sizes: KnownSizes) -> ExtraParameters:
        """The student's tables stand beside the model's; what is added to them is trained, a bias with it.

        As if all tokens were new, which is known only when vocabularies are compared.
        """
        added = sizes.vocabulary("decoder") * (sizes.width * (1 if sizes.tied else 2) + 1)
        return ExtraParameters(held=2 * added, trained=added)


class VocadtRecipe(TrainedRecipe):
    """pairs: the adapters are trained on only this many of the training pairs, as the finetuning is, beside all of the
    input `synthetic`, where that is given: pairs that were made of text.
    """

    frozen_model: ClassVar[bool] = True

    languages: Languages
    sides: tuple[SideName, ...]
    pairs: int | None = Field(default=None, exclude_if=lambda given: given is None)

    def extra_parameters(self, sizes: KnownSizes) -> ExtraParameters:
        """The old tables and the new ones stand beside the model's; a weight for each pair of a new and an old token is
        trained, twice where a projection is no input table. As if all tokens were new, which is known only when
        vocabularies are compared.
        """
        old, held, trained = sizes.tables("model"), 0, 0
        for side in self.sides:
            tables = 2 if side == "decoder" and not sizes.tied else 1
            trained += tables * sizes.vocabulary(side) * old[side]
            held += tables * (sizes.vocabulary(side) + old[side]) * sizes.width
        return ExtraParameters(held=trained + held, trained=trained)
