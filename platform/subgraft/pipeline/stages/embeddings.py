"""Stages that train generators and new embeddings."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, Literal

from pydantic import Field

from subgraft.config.corpora import Languages
from subgraft.config.initialiser_registry import StartName
from subgraft.config.initialisers import (
    AttentionInfluenceSettings,
    GeneratorSettings,
    LikelihoodMatchingSettings,
    NetworkSettings,
    TokenDistillationSettings,
)
from subgraft.config.objectives import ObjectiveSettings
from subgraft.config.settings_base import SideName
from subgraft.training.stage import ExtraParameters, Inputs, KnownSizes, Stage, Summary, TrainedStage

MixingKind = Literal["att", "patt"]
# Rows of a generator's weights: one for all similar tokens, or one for each of the six relations.
_ROWS = {"att": 1, "patt": 6}

if TYPE_CHECKING:
    from subgraft.training.context import Context


class AnyGeneratorStage(TrainedStage):
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


class GeneratorStage(AnyGeneratorStage):
    """The training of an ATT or PATT generator."""

    stage_name: ClassVar[str] = "generator"
    revision: ClassVar[int] = 4

    kind: MixingKind
    generator: GeneratorSettings

    def extra_parameters(self, sizes: KnownSizes) -> ExtraParameters:
        weights = _ROWS[self.kind] * sizes.width
        return ExtraParameters(held=weights, trained=weights)

    def run(self, inputs: Inputs, out: Path, context: Context) -> Summary:
        from subgraft.pipeline.compute.generators import train_generator

        return train_generator(self, inputs, out, context)


class NetworkStage(AnyGeneratorStage):
    """The training of a network over pieces, which is independent of the task."""

    stage_name: ClassVar[str] = "network"
    revision: ClassVar[int] = 4

    network: NetworkSettings

    def extra_parameters(self, sizes: KnownSizes) -> ExtraParameters:
        """Its layers, each 8 w² weights (attention 4 w², feed-forward 4 w²), and the projections of rows in and out."""
        width = self.network.width
        weights = self.network.layers * 8 * width**2 + (2 if sizes.tied else 3) * width * sizes.width
        return ExtraParameters(held=weights, trained=weights)

    def run(self, inputs: Inputs, out: Path, context: Context) -> Summary:
        from subgraft.pipeline.compute.generators import train_network

        return train_network(self, inputs, out, context)


# The files of a trained network, as `embeddings.generators.network` writes them.
NETWORK_FILES = ("generator.json", "network.safetensors")


class ImportedNetworkStage(Stage):
    """A trained network of the user; `digest` identifies its files, and it must have a generator for all `sides`."""

    stage_name: ClassVar[str] = "imported-network"
    revision: ClassVar[int] = 1

    digest: str
    sides: tuple[SideName, ...]
    directory: str = Field(exclude=True)

    def run(self, inputs: Inputs, out: Path, context: Context) -> Summary:
        from subgraft.pipeline.compute.generators import import_network

        return import_network(self, inputs, out, context)


class DistillationStage(TrainedStage):
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

    def run(self, inputs: Inputs, out: Path, context: Context) -> Summary:
        from subgraft.pipeline.compute.learned_rows import distil

        return distil(self, inputs, out, context)


class TokenDistillationStage(DistillationStage):
    """Token Distillation."""

    stage_name: ClassVar[str] = "distillation"
    revision: ClassVar[int] = 2

    distillation: TokenDistillationSettings


class AttentionInfluenceStage(DistillationStage):
    """Distillation of attention influence."""

    stage_name: ClassVar[str] = "attention-influence"
    revision: ClassVar[int] = 2

    distillation: AttentionInfluenceSettings


class LikelihoodMatchingStage(TrainedStage):
    """Likelihood matching.

    It also reads the pairs of an input `synthetic`.

    Attributes:
        starts_from: The initialiser of the rows that training starts with.
        max_similar: Of `avg`.
    """

    stage_name: ClassVar[str] = "matching"
    revision: ClassVar[int] = 1

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

    def run(self, inputs: Inputs, out: Path, context: Context) -> Summary:
        from subgraft.pipeline.compute.learned_rows import match_likelihood

        return match_likelihood(self, inputs, out, context)


class VocadtStage(TrainedStage):
    """VocADT, trained on `max_train_examples` pairs of the task (None: all) and all pairs of an input `synthetic`."""

    stage_name: ClassVar[str] = "vocadt"
    revision: ClassVar[int] = 2

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

    def run(self, inputs: Inputs, out: Path, context: Context) -> Summary:
        from subgraft.pipeline.compute.vocadt import run

        return run(self, inputs, out, context)
