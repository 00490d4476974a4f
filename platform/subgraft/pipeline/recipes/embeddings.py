"""Recipes of the stages that train generators and new embeddings."""

from __future__ import annotations

from typing import ClassVar, Literal

from pydantic import Field

from subgraft.config.corpora import Languages
from subgraft.config.initialisers import (
    AttentionInfluenceSettings,
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
# Rows of a generator's weights: one for all similar tokens, or one for each of the six relations.
_ROWS = {"att": 1, "patt": 6}


class AnyGeneratorRecipe(TrainedRecipe):
    """Base of the trainings of generators; `objectives` are those of the model's pretraining.

    With `one_vocabulary` both sides get the same new vocabulary. A model that shares its embeddings then trains one
    generator, the decoder's, for both.
    """

    frozen_model: ClassVar[bool] = True

    objectives: tuple[ObjectiveSettings, ...]
    languages: Languages
    sides: tuple[SideName, ...]
    one_vocabulary: bool
    kd_weight: float

    @property
    def trained_on(self) -> tuple[ObjectiveSettings, ...]:
        return self.objectives


class GeneratorRecipe(AnyGeneratorRecipe):
    """The training of an ATT or PATT generator."""

    kind: MixingKind
    generator: GeneratorSettings

    def extra_parameters(self, sizes: KnownSizes) -> ExtraParameters:
        weights = _ROWS[self.kind] * sizes.width
        return ExtraParameters(held=weights, trained=weights)


class NetworkRecipe(AnyGeneratorRecipe):
    """The training of a network over pieces, which is independent of the task."""

    network: NetworkSettings

    def extra_parameters(self, sizes: KnownSizes) -> ExtraParameters:
        """Its layers, each 8 w² weights (attention 4 w², feed-forward 4 w²), and the projections of rows in and out."""
        width = self.network.width
        weights = self.network.layers * 8 * width**2 + (2 if sizes.tied else 3) * width * sizes.width
        return ExtraParameters(held=weights, trained=weights)


# The files of a trained network, as `embeddings.generators.network` writes them.
NETWORK_FILES = ("generator.json", "network.safetensors")


class ImportedNetworkRecipe(Recipe):
    """A trained network of the user; `digest` identifies its files, and it must have a generator for all `sides`."""

    digest: str
    sides: tuple[SideName, ...]
    directory: str = Field(exclude=True)


class DistillationRecipe(TrainedRecipe):
    """Base of trainings in which the model with new tokens imitates itself without them.

    The encoder also reads the source of an input `text`, the decoder pairs of `synthetic`.
    """

    frozen_model: ClassVar[bool] = True
    new_tokens_only: ClassVar[bool] = True

    languages: Languages
    sides: tuple[SideName, ...]
    distillation: TokenDistillationSettings | AttentionInfluenceSettings

    def extra_parameters(self, sizes: KnownSizes) -> ExtraParameters:
        """An upper bound: as if all tokens were new. Sides are learnt one after the other."""
        rows = max(map(sizes.vocabulary, self.sides)) * sizes.width
        return ExtraParameters(held=rows, trained=rows)


class TokenDistillationRecipe(DistillationRecipe):
    """Token Distillation."""

    distillation: TokenDistillationSettings


class AttentionInfluenceRecipe(DistillationRecipe):
    """Distillation of attention influence."""

    distillation: AttentionInfluenceSettings


class LikelihoodMatchingRecipe(TrainedRecipe):
    """Likelihood matching.

    It also reads the pairs of an input `synthetic`.

    Attributes:
        starts_from: The initialiser of the rows that training starts with.
        max_similar: Of `avg`.
    """

    frozen_model: ClassVar[bool] = True
    new_tokens_only: ClassVar[bool] = True

    languages: Languages
    starts_from: StartName
    max_similar: int
    matching: LikelihoodMatchingSettings

    def extra_parameters(self, sizes: KnownSizes) -> ExtraParameters:
        """The student has embeddings of its own; their differences are trained, with a bias.

        An upper bound: as if all tokens were new.
        """
        added = sizes.vocabulary("decoder") * (sizes.width * (1 if sizes.tied else 2) + 1)
        return ExtraParameters(held=2 * added, trained=added)


class VocadtRecipe(TrainedRecipe):
    """VocADT, trained on `max_train_examples` pairs of the task (None: all) and all pairs of an input `synthetic`."""

    frozen_model: ClassVar[bool] = True

    languages: Languages
    sides: tuple[SideName, ...]
    max_train_examples: int | None = None

    def extra_parameters(self, sizes: KnownSizes) -> ExtraParameters:
        """Old and new embeddings, and a weight for each pair of a new and an old token.

        The embeddings are held in addition to the model's. An untied output projection doubles the weights. This is an
        upper bound: as if all tokens were new, and all old tokens occurred in the text.
        """
        old, held, trained = sizes.tables("model"), 0, 0
        for side in self.sides:
            tables = 2 if side == "decoder" and not sizes.tied else 1
            trained += tables * sizes.vocabulary(side) * old[side]
            held += tables * (sizes.vocabulary(side) + old[side]) * sizes.width
        return ExtraParameters(held=trained + held, trained=trained)
