"""Stages that train generators and new embeddings."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, Literal

from pydantic import Field

from subgraft.config.corpora import Languages
from subgraft.config.initialisers import (
    GeneratorSettings,
    NetworkSettings,
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
