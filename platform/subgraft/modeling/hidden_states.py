"""Hidden states of a model, of every family asked the same way, at its top or after one of its layers."""

from __future__ import annotations

from typing import Any

from torch import Tensor, nn

from subgraft.modeling.families import Side, family_of


def encoder_states(model: nn.Module, *, layer: int | None = None, **inputs: Any) -> Tensor:
    """States [B, S, d] of `input_ids` or `inputs_embeds` under an `attention_mask`.

    layer: after which layer, counted from 1; the top, with what the model does there, where it is None.
    """
    return family_of(model).encoder_states(model, layer=layer, **inputs)


def decoder_states_from_memory(
    model: nn.Module, memory: Tensor, mask: Tensor, *, layer: int | None = None, **inputs: Any
) -> Tensor:
    """States [B, T, d] of `input_ids` or `inputs_embeds`, beside the encoder's states [B, S, d] and their mask."""
    return family_of(model).decoder_states(model, memory, mask, layer=layer, **inputs)


def stack_states(model: nn.Module, *, layer: int | None = None, **inputs: Any) -> Tensor:
    """States [B, T, d] of `input_ids` or `inputs_embeds` in a model of one stack: an encoder or a decoder alone."""
    return family_of(model).stack_states(model, layer=layer, **inputs)


def input_scale(model: nn.Module, side: Side) -> float:
    """What rows of the side's table are multiplied by before they are given as `inputs_embeds`."""
    return family_of(model).input_scale(model, side)
