"""The cost of a sentence with vocabularies of other sizes: seconds on this machine, and memory."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from statistics import median

import torch

from subgraft.config.settings_base import SideName
from subgraft.modeling.bundle import Bundle
from subgraft.modeling.families import family_of
from subgraft.modeling.inference.search import generate_ids
from subgraft.modeling.sides import side
from subgraft.orchestration.estimates.memory_estimate import FP32, Dimensions

REPEATS = 3
# Tokens of the two timed outputs, and of their source.
SHORT, LONG, SOURCE = 4, 28, 24


@dataclass(frozen=True)
class SentenceCost:
    """The cost of a model's greedy output, one sentence at a time.

    Attributes:
        fixed: Seconds before the first token.
        body: Seconds per token without the projection.
        numbers: Keys and values of a token, over all layers.
        width: Of the embeddings.
    """

    fixed: float
    body: float
    numbers: int
    width: int

    def seconds(self, tokens: float, vocabulary: int) -> float:
        """Seconds for a sentence of `tokens`, with a vocabulary of this size."""
        return self.fixed + tokens * (self.body + _projection_seconds(vocabulary, self.width))

    def bytes(self, tokens: float, vocabulary: int) -> int:
        """Bytes of the sentence's keys and values, at most, and of a step's logits; in fp32, for one beam."""
        return FP32 * round(tokens * self.numbers + vocabulary)

    def table_bytes(self, vocabulary: int) -> int:
        """Bytes of one embedding table of the model, in fp32."""
        return FP32 * vocabulary * self.width


def measure_cost(bundle: Bundle, name: SideName) -> SentenceCost | None:
    """Time outputs of two lengths; None for a model that does not generate."""
    model, config = bundle.model, bundle.model.config.to_dict()
    if not family_of(config).generates:
        return None
    width = side(model, name).input.weight.shape[1]
    rows = side(model, "decoder").input.weight.shape[0]
    model.train(False)
    ids = torch.full((1, SOURCE if len(bundle.tokenizers) == 2 else 2), len(bundle.tokenizers["decoder"]) // 2)
    short, long = (_seconds(partial(_write, bundle, ids, length)) for length in (SHORT, LONG))
    token = max(0.0, (long - short) / (LONG - SHORT))
    sizes = Dimensions.of(config)
    layers = sizes.decoder_layers or sizes.encoder_layers
    return SentenceCost(
        fixed=max(0.0, short - SHORT * token),
        body=max(0.0, token - _projection_seconds(rows, width)),
        numbers=2 * layers * sizes.width,
        width=width,
    )


def _write(bundle: Bundle, ids: torch.Tensor, length: int) -> None:
    ids = ids.clamp(max=len(bundle.encoder) - 1)
    # min_length and max_length count these too.
    prefix_length = 1 if bundle.model.config.is_encoder_decoder else ids.shape[1]
    with torch.inference_mode():
        generate_ids(
            bundle.model,
            input_ids=ids,
            attention_mask=torch.ones_like(ids),
            min_length=prefix_length + length,
            max_length=prefix_length + length,
            num_beams=1,
            do_sample=False,
        )


def _projection_seconds(vocabulary: int, width: int) -> float:
    hidden, table = torch.zeros(1, width), torch.zeros(vocabulary, width)
    return _seconds(lambda: hidden @ table.T)


def _seconds(function: Callable[[], object]) -> float:
    """The median time of REPEATS runs after a warm-up."""
    function()
    durations = []
    for _ in range(REPEATS):
        started = time.perf_counter()
        function()
        durations.append(time.perf_counter() - started)
    return median(durations)
