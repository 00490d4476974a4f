"""How much memory a training takes on each worker, estimated from sizes alone.

Parameters, gradients and Adam's moments are as in Rajbhandari et al. 2020 (ZeRO, section 3), with this package's types:
all are fp32, and bf16 is autocast's alone. Under stages 1 to 3 DeepSpeed keeps another copy of the parameters that a
worker updates. Not counted: what libraries take, buffers for communication, and fragmentation.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from subgraft.config.runtime import Offload, ZeroStage
from subgraft.config.training import Precision
from subgraft.modeling.families import Parameters, family_of
from subgraft.training.objectives.logit_slices import loss_slice_rows

FP32 = 4
MOMENTS = 2


def state_bytes(parameters: Parameters, stage: ZeroStage, workers: int, offload: Offload = "none") -> int:
    """What parameters, gradients and the optimizer take on a worker's device while a step is computed.

    Stage 0 splits nothing up, as no DeepSpeed does. Stages 1, 2 and 3 split the optimizer's state, then gradients too,
    then parameters too. What is offloaded takes nothing: gradients go with the optimizer's state where they are split.
    """
    total, trained = parameters
    weights = FP32 * total // (workers if stage == 3 else 1)
    gradients = FP32 * trained // (workers if stage >= 2 else 1)
    optimizer = MOMENTS * FP32 * trained if stage == 0 else (MOMENTS + 1) * FP32 * trained // workers
    if offload != "none":
        optimizer, gradients = 0, gradients if stage < 2 else 0
    if offload == "parameters":
        weights = 0
    return weights + gradients + optimizer


def checkpoint_bytes(parameters: Parameters, stage: ZeroStage, workers: int) -> int:
    """What the copy of which a checkpoint is written takes in a machine's memory, on the worker that has most.

    Where the optimizer's state is split up each has a copy of its part, else the first has one of all.
    """
    return (1 + MOMENTS) * FP32 * parameters.trained // (workers if stage else 1)


@dataclass(frozen=True)
class Dimensions:
    """Of a model, what its activations depend on.

    embeddings: the width of its tables.  decoder_layers: those that also attend to an encoder.
    """

    width: int
    embeddings: int
    inner: int
    encoder_layers: int
    decoder_layers: int
    vocabulary: int

    @classmethod
    def of(cls, config: Mapping[str, Any]) -> Dimensions:
        """By a config.json."""
        family = family_of(config)
        encoder, decoder = family.layers(config, "encoder"), family.layers(config, "decoder")
        # A stack that is alone attends to itself only, as an encoder does.
        layers = (encoder, decoder) if encoder and decoder else (encoder + decoder, 0)
        vocabulary = family.vocabulary_sizes(config)["decoder"]
        return cls(
            family.width(config), family.embedding_width(config), family.inner_width(config), *layers, vocabulary
        )


def activation_bytes(model: Dimensions, tokens: int, precision: Precision, checkpointing: bool = False) -> int:
    """What a forward pass over so many tokens a side keeps for the backward pass, and what the loss takes. Rough.

    A layer keeps 18 d + 4 f bytes for each token in 16 bits (d its width, f that of its inner layer; Korthikanti et
    al. 2022, section 4.1), in a decoder 13 d more for its second attention. With fused attention no scores are kept.
    With checkpointing a layer keeps its input alone, and one layer at a time all. `auto` counts as fp32, which takes
    more.
    """
    number = 2 if precision == "bf16" else FP32
    encoder = (18 * model.width + 4 * model.inner) * number // 2
    decoder = encoder + 13 * model.width * number // 2
    if checkpointing:
        inputs = (model.encoder_layers + model.decoder_layers) * model.width * number
        layers = inputs + (decoder if model.decoder_layers else encoder)
    else:
        layers = model.encoder_layers * encoder + model.decoder_layers * decoder
    return tokens * layers + _loss_bytes(model, precision)


def _loss_bytes(model: Dimensions, precision: Precision) -> int:
    """A slice of logits with its gradient; of the projection a copy in 16 bits, its gradient, and what a slice adds."""
    table, rows = model.vocabulary * model.embeddings, loss_slice_rows(model.vocabulary, model.embeddings)
    return 2 * FP32 * rows * model.vocabulary + table * (FP32 + (2 + 2 if precision == "bf16" else FP32))
