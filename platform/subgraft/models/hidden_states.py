# mypy: allow-untyped-calls
"""The top hidden states of a model, family by family the same way."""

from __future__ import annotations

from torch import Tensor, nn


def encoder_states(model: nn.Module, **inputs: Tensor) -> Tensor:
    """What the encoder makes of input_ids or inputs_embeds under an attention_mask [B, S]: states [B, S, d]."""
    states: Tensor = model.get_encoder()(**inputs).last_hidden_state  # type: ignore[operator]
    return states


def decoder_states_beside(model: nn.Module, memory: Tensor, mask: Tensor, **inputs: Tensor) -> Tensor:
    """What the decoder makes of input_ids or inputs_embeds [B, T], given the encoder's states and mask: [B, T, d]."""
    decoder = model.get_decoder().base_model  # type: ignore[operator]
    states: Tensor = decoder(
        encoder_hidden_states=memory, encoder_attention_mask=mask, use_cache=False, **inputs
    ).last_hidden_state
    return states


def bert_states(model: nn.Module, **inputs: Tensor) -> Tensor:
    """What a masked language model makes of input_ids or inputs_embeds under an attention_mask [B, T]: [B, T, d]."""
    states: Tensor = model.base_model(**inputs).last_hidden_state  # type: ignore[operator]
    return states
