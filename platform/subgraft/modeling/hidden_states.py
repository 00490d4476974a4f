"""Hidden states of a model of any family, at the top of a stack or after one of its layers."""

from __future__ import annotations

from typing import Any

from torch import Tensor, nn

from subgraft.modeling.families import Side, family_of


def encoder_states(model: nn.Module, *, layer: int | None = None, **inputs: Any) -> Tensor:
    """States [B, S, d] of `input_ids` or `inputs_embeds` under an `attention_mask`.

    layer: the layer after which they are taken, counted from 1; None for the top, with the model's final norm.
    """
    return family_of(model).encoder_states(model, layer=layer, **inputs)


def decoder_states_from_memory(
    model: nn.Module, memory: Tensor, mask: Tensor, *, layer: int | None = None, **inputs: Any
) -> Tensor:
    """States [B, T, d] of `input_ids` or `inputs_embeds`, given encoder states [B, S, d] and their mask."""
    return family_of(model).decoder_states(model, memory, mask, layer=layer, **inputs)


def stack_states(model: nn.Module, *, layer: int | None = None, **inputs: Any) -> Tensor:
    """States [B, T, d] of `input_ids` or `inputs_embeds` in an encoder-only or decoder-only model."""
    return family_of(model).stack_states(model, layer=layer, **inputs)


def input_scale(model: nn.Module, side: Side) -> float:
    """The factor by which a side's embeddings must be multiplied before they are passed as `inputs_embeds`."""
    return family_of(model).input_scale(model, side)
