"""Estimated memory of a training on each worker, from sizes alone.

Parameters, gradients and Adam's moments are as in Rajbhandari et al. 2020 (ZeRO, section 3), with this package's types:
all are fp32, and bf16 is autocast's alone. Under stages 1 to 3 DeepSpeed holds another copy of the parameters that a
worker updates. Not counted: libraries, communication buffers and fragmentation.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from subgraft.config.runtime import Offload, ZeroStage
from subgraft.config.training import Precision
from subgraft.modeling.families import Parameters, family_of
from subgraft.training.objectives.compute.logit_slices import loss_slice_rows

FP32 = 4
MOMENTS = 2


def state_bytes(parameters: Parameters, stage: ZeroStage, workers: int, offload: Offload = "none") -> int:
    """Bytes of parameters, gradients and optimizer state on a worker's device during a step.

    Stage 0 shards nothing, as without DeepSpeed. Stages 1, 2 and 3 shard the optimizer's state, then also gradients,
    then also parameters. Offloaded state counts as 0; sharded gradients are offloaded with the optimizer's state.
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
    """Bytes of the copy that a checkpoint is written from, on the worker with the largest one.

    Every worker copies its shard of the optimizer's state; without shards the first worker copies all of it.
    """
    return (1 + MOMENTS) * FP32 * parameters.trained // (workers if stage else 1)


@dataclass(frozen=True)
class Dimensions:
    """The dimensions of a model that its activations depend on.

    Attributes:
        embeddings: Width of the embeddings.
        decoder_layers: Layers that also attend to an encoder.
    """

    width: int
    embeddings: int
    inner: int
    encoder_layers: int
    decoder_layers: int
    vocabulary: int

    @classmethod
    def of(cls, config: Mapping[str, Any]) -> Dimensions:
        """Read them from a config.json."""
        family = family_of(config)
        encoder, decoder = family.layers(config, "encoder"), family.layers(config, "decoder")
        # A stack that is alone attends to itself only, as an encoder does.
        layers = (encoder, decoder) if encoder and decoder else (encoder + decoder, 0)
        vocabulary = family.vocabulary_sizes(config)["decoder"]
        return cls(
            family.width(config), family.embedding_width(config), family.inner_width(config), *layers, vocabulary
        )


def activation_bytes(
    model: Dimensions, tokens: int, precision: Precision, checkpointing: bool = False, on_gpu: bool = False
) -> int:
    """Rough bytes of the activations of a forward pass over `tokens` per side, and of the loss.

    A layer stores 18 d + 4 f bytes per token in 16 bits (d its width, f that of its inner layer; Korthikanti et al.
    2022, section 4.1), a decoder layer 13 d more for its second attention. Fused attention stores no scores. With
    checkpointing a layer stores only its input, and one layer at a time everything. `auto` counts as fp32, the larger.
    """
    number = 2 if precision == "bf16" else FP32
    encoder = (18 * model.width + 4 * model.inner) * number // 2
    decoder = encoder + 13 * model.width * number // 2
    if checkpointing:
        inputs = (model.encoder_layers + model.decoder_layers) * model.width * number
        layers = inputs + (decoder if model.decoder_layers else encoder)
    else:
        layers = model.encoder_layers * encoder + model.decoder_layers * decoder
    # A slice of logits with its gradient, a 16-bit copy of the projection, its gradient, and the slice's addition.
    table, rows = model.vocabulary * model.embeddings, loss_slice_rows(model.vocabulary, model.embeddings, on_gpu)
    if on_gpu:  # whose slice may be larger than the batch
        rows = min(rows, tokens)
    loss = 2 * FP32 * rows * model.vocabulary + table * (FP32 + (2 + 2 if precision == "bf16" else FP32))
    return tokens * layers + loss
