# mypy: allow-untyped-calls
"""transformers' `generate` with the caller's arguments and those of a model's settings that change scores."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn
from transformers import GenerationConfig

# A published model may also ask for other kinds of search, for several outputs of one source, for another form of the
# answer or for a cache: transformers would follow it in place of what is asked for here, or end in an error.
FOLLOWED = (
    "bad_words_ids",
    "begin_suppress_tokens",
    "bos_token_id",
    "decoder_start_token_id",
    "encoder_no_repeat_ngram_size",
    "encoder_repetition_penalty",
    "eos_token_id",
    "exponential_decay_length_penalty",
    "forced_bos_token_id",
    "guidance_scale",
    "length_penalty",
    "min_length",
    "min_new_tokens",
    "no_repeat_ngram_size",
    "pad_token_id",
    "remove_invalid_values",
    "renormalize_logits",
    "repetition_penalty",
    "sequence_bias",
    "suppress_tokens",
    "watermarking_config",
)


def searched(model: nn.Module, **asked: Any) -> Tensor:
    """The ids that transformers' `generate` gives. asked: its arguments, which all count for more than the model's."""
    with _followed_settings(model):
        found: Tensor = model.generate(**asked)  # type: ignore[operator]
    return found


def unended(written: Tensor, ends: Sequence[int]) -> int:
    """How many of the outputs [B, T] have come to none of the tokens that end them."""
    return int((~torch.isin(written, torch.tensor(ends, device=written.device)).any(1)).sum())


@contextmanager
def _followed_settings(model: Any) -> Iterator[None]:
    own = model.generation_config
    model.generation_config = GenerationConfig()
    for name in FOLLOWED:
        setattr(model.generation_config, name, getattr(own, name, None))
    try:
        yield
    finally:
        model.generation_config = own
