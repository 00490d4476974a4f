"""Stages that build, import, assemble, condition and transplant models."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from pydantic import Field

from subgraft.config.initialisers import DonorMapping
from subgraft.config.models import ModelSettings
from subgraft.config.settings_base import SideName
from subgraft.modeling.families import (
    as_both_sides,
    family_of,
    vocabulary_sizes,
    with_vocabularies,
)
from subgraft.modeling.hub import read_config, resolve_model
from subgraft.modeling.tokenizers import load_tokenizers, with_languages
from subgraft.training.stage import Inputs, Stage, Summary, built_config

if TYPE_CHECKING:
    from subgraft.modeling.families import Config
    from subgraft.training.context import Context
    from subgraft.training.stage import KnownInputs


class CheckpointStage(Stage):
    """A checkpoint; `digest` is that of its files, or ID@COMMIT on the hub. A directory's path does not count.

    body: Whether its head is left out, for a head that a finetuning puts in its place.
    next_sentence: Whether it keeps a head for next sentences that only its weights show, to be trained further.
    new_languages: The languages for which it gets codes, with the initialiser of each.
    seed: Of codes that are drawn; 0 without any.
    half: Whether its weights have 16 bits. All trainings that follow are then in fp32, and were not at first.
    """

    stage_name: ClassVar[str] = "checkpoint"
    revision: ClassVar[int] = 3

    digest: str
    model: str = Field(exclude=True)
    body: bool = False
    next_sentence: bool = False
    new_languages: Mapping[str, str] = {}
    seed: int = 0
    half: bool = Field(False, exclude_if=lambda half: not half)

    def config_after(self, inputs: KnownInputs) -> Config:
        config = read_config(resolve_model(self.model, body=True))
        if not self.new_languages:
            return config
        # Codes of new languages first use rows beyond the vocabulary.
        tokenizers = with_languages(load_tokenizers(self.model), self.new_languages)
        sizes = {side: max(rows, len(tokenizers[side])) for side, rows in vocabulary_sizes(config).items()}
        if len(set(sizes.values())) > 1:
            return with_vocabularies(config, sizes)
        names = {"vocab_size", "decoder_vocab_size"} & config.keys()
        return {**config, **dict.fromkeys(names, sizes["decoder"])}

    def run(self, inputs: Inputs, out: Path, context: Context) -> Summary:
        from subgraft.pipeline.compute.models import import_checkpoint

        return import_checkpoint(self, inputs, out, context)


class BuildStage(Stage):
    stage_name: ClassVar[str] = "build"
    revision: ClassVar[int] = 1

    model: ModelSettings
    seed: int

    def config_after(self, inputs: KnownInputs) -> Config:
        return built_config(self.model, inputs)

    def run(self, inputs: Inputs, out: Path, context: Context) -> Summary:
        from subgraft.pipeline.compute.models import build_model

        return build_model(self, inputs, out, context)


class SavedWeightsStage(Stage):
    """The weights of the input `model`, a pretraining, after `step` updates."""

    stage_name: ClassVar[str] = "saved-weights"
    revision: ClassVar[int] = 1

    step: int

    def run(self, inputs: Inputs, out: Path, context: Context) -> Summary:
        from subgraft.pipeline.compute.models import take_saved_weights

        return take_saved_weights(self, inputs, out, context)


class AssembleStage(Stage):
    """An encoder-decoder from an encoder; `seed` is that of the decoder's new attention to the encoder."""

    stage_name: ClassVar[str] = "assemble"
    revision: ClassVar[int] = 1

    seed: int

    def config_after(self, inputs: KnownInputs) -> Config:
        return as_both_sides(inputs.config("model"))

    def run(self, inputs: Inputs, out: Path, context: Context) -> Summary:
        from subgraft.pipeline.compute.models import assemble_model

        return assemble_model(self, inputs, out, context)


class UntieStage(Stage):
    """The input `model`, a decoder, with output embeddings of its own, equal to the input embeddings."""

    stage_name: ClassVar[str] = "untie"
    revision: ClassVar[int] = 1

    def config_after(self, inputs: KnownInputs) -> Config:
        model = inputs.config("model")
        return family_of(model).untied(model)

    def run(self, inputs: Inputs, out: Path, context: Context) -> Summary:
        from subgraft.pipeline.compute.models import untie_model

        return untie_model(self, inputs, out, context)


class SourceEncoderStage(Stage):
    """The input `model` with a new encoder that reads sources in the vocabulary of the input `encoder`.

    Attributes:
        seed: Of the new weights.
    """

    stage_name: ClassVar[str] = "source-encoder"
    revision: ClassVar[int] = 1

    layers: int
    seed: int

    def config_after(self, inputs: KnownInputs) -> Config:
        model = inputs.config("model")
        return family_of(model).with_source_encoder(model, self.layers, inputs.vocabulary_size("encoder"))

    def run(self, inputs: Inputs, out: Path, context: Context) -> Summary:
        from subgraft.pipeline.compute.models import add_source_encoder

        return add_source_encoder(self, inputs, out, context)


class MethodStage(Stage):
    """Base of the stages that make embeddings of new tokens by a method.

    Attributes:
        seed: Of random initialisers; 0 for the others, so that all seeds share one transfer.
        package: Package and version of a plugin's method.
        donor: How embeddings of the input model `donor` are mapped.
    """

    method: str
    sides: tuple[SideName, ...]
    max_similar: int
    seed: int
    package: str | None = None
    donor: DonorMapping | None = None


class TransferStage(MethodStage):
    """A transfer of a model to new vocabularies.

    Attributes:
        keep_matrices: Whether to save the mixing matrices, for a finetuning with tie_to_sources.
    """

    stage_name: ClassVar[str] = "transfer"
    revision: ClassVar[int] = 5

    copy_shared_tokens: bool = True
    keep_matrices: bool = False

    def config_after(self, inputs: KnownInputs) -> Config:
        sizes = {side: inputs.vocabulary_size(f"vocabulary/{side}") for side in self.sides}
        return with_vocabularies(inputs.config("model"), sizes)

    def run(self, inputs: Inputs, out: Path, context: Context) -> Summary:
        from subgraft.pipeline.compute.transfer import run_transfer

        return run_transfer(self, inputs, out, context)
