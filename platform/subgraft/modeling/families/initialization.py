"""A new model whose weights are a function of a seed."""

from __future__ import annotations

from typing import Any

import torch
from transformers import PreTrainedModel


def initialised(kind: type[PreTrainedModel], config: Any, seed: int) -> PreTrainedModel:
    """A new model of this class whose weights depend on the seed only; the caller's random state is unchanged."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        model = kind(config)
    longest = getattr(config, "max_position_embeddings", None)
    if config.is_encoder_decoder and longest is not None:
        # Without a limit of its own, generate stops after 20 tokens.
        model.generation_config.max_length = longest
    return model
