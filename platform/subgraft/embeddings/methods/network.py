"""Rows that a trained network computes from a token's pieces; `generators.network` explains it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, ClassVar

from pydantic import Field, model_validator

from subgraft.base.limits import MAX_LAYERS, MAX_WIDTH
from subgraft.config.settings_base import Count, Settings, SideName
from subgraft.config.training import TrainingSettings
from subgraft.embeddings.methods.method import AnyGeneratorStage, MethodSpec, TrainingGroup
from subgraft.training.stage import ExtraParameters, Inputs, KnownSizes, Stage, Summary

if TYPE_CHECKING:
    from subgraft.embeddings.initialisers.new_rows import InitialiserInputs, NewRows
    from subgraft.training.context import Context


class NetworkSettings(Settings):
    """A generator with capacity: a network over a token's pieces, trained on pseudo-domains of the upstream text.

    width: the size of its hidden states.
    layers: the number of Transformer layers.
    domains: pseudo-domains, each with a vocabulary of its own.
    sentences: upstream sentences of a pseudo-domain.
    vocabulary_size: range of the size of a pseudo-domain's vocabulary, relative to the upstream one.
    negatives: sampled tokens in the softmax: new tokens of the pseudo-domain that are not in the batch.
    trained: the directory of a network that `subgraft generator train` made for this model.
    """

    width: Annotated[int, Field(ge=4, le=MAX_WIDTH, multiple_of=4)] = 256
    layers: Annotated[int, Field(ge=1, le=MAX_LAYERS)] = 2
    domains: Count = 16
    sentences: Count = 8000
    vocabulary_size: tuple[Annotated[float, Field(gt=0)], Annotated[float, Field(gt=0)]] = (0.6, 1.5)
    negatives: Annotated[int, Field(ge=0, le=1_000_000)] = 1000
    trained: str | None = None

    @model_validator(mode="after")
    def _bounds_ordered(self) -> NetworkSettings:
        low, high = self.vocabulary_size
        if low > high:
            raise ValueError(f"vocabulary_size must increase, and {low} is above {high}")
        return self


class NetworkGroups(Settings):
    """
    network: for systems of `network`.
    network_training: the training of a network; required if there is such a system.
    """

    network: NetworkSettings = NetworkSettings()
    network_training: TrainingSettings | None = None


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
        from subgraft.embeddings.generators.training import train_network

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
        from subgraft.embeddings.generators.training import import_network

        return import_network(self, inputs, out, context)


def _rows(request: InitialiserInputs) -> NewRows:
    from subgraft.embeddings.generators.network import add_to_mean

    return add_to_mean(request)


NETWORK = MethodSpec(
    name="network",
    start="the mean of its pieces, plus the output of a small trained network",
    source="ours; after Minixhofer, Ponti and Vulić 2024",
    rows=_rows,
    generator=True,
    trains=NetworkStage,
    training=TrainingGroup(
        "network_training",
        small={"max_steps": 200, "batch_size": 2000, "learning_rate": 0.001, "schedule": "cosine"},
        gpu={"max_steps": 1000, "learning_rate": 0.001, "schedule": "cosine"},
        paper={"max_steps": 2000, "learning_rate": 0.001, "schedule": "cosine"},
    ),
)
