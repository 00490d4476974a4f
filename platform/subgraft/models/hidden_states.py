# mypy: allow-untyped-calls
"""Hidden states of a model, family by family the same way, at its top or after one of its layers."""

from __future__ import annotations

from typing import Any

from torch import Tensor, nn

from subgraft.models.sides import Side


def encoder_states(model: nn.Module, *, layer: int | None = None, **inputs: Any) -> Tensor:
    """States [B, S, d] of `input_ids` or `inputs_embeds` under an `attention_mask`.

    layer: after which layer, counted from 1; the top, with what the model does there, where it is None.
    """
    return _at(model.get_encoder()(**inputs, output_hidden_states=layer is not None), layer)  # type: ignore[operator]


def decoder_states_beside(
    model: nn.Module, memory: Tensor, mask: Tensor, *, layer: int | None = None, **inputs: Any
) -> Tensor:
    """States [B, T, d] of `input_ids` or `inputs_embeds`, beside the encoder's states [B, S, d] and their mask."""
    decoded = model.get_decoder().base_model(  # type: ignore[operator]
        encoder_hidden_states=memory,
        encoder_attention_mask=mask,
        use_cache=False,
        output_hidden_states=layer is not None,
        **inputs,
    )
    return _at(decoded, layer)


def stack_states(model: nn.Module, **inputs: Tensor) -> Tensor:
    """Top states [B, T, d] of a model of one stack: of input_ids or inputs_embeds under an attention_mask [B, T]."""
    states: Tensor = model.base_model(use_cache=False, **inputs).last_hidden_state  # type: ignore[operator]
    return states


def input_scale(model: nn.Module, side: Side) -> float:
    """What rows of the side's table are multiplied by before they are given as `inputs_embeds`.

    mBART scales inside its embedding module, Marian's decoder whatever it is given; Marian's encoder scales ids alone.
    """
    if side.name == "encoder" and model.config.model_type == "marian":  # type: ignore[union-attr]
        return float(model.get_encoder().embed_scale)  # type: ignore[operator]
    return float(getattr(side.input, "embed_scale", 1.0))


def _at(output: Any, layer: int | None) -> Tensor:
    states: Tensor = output.last_hidden_state if layer is None else output.hidden_states[layer]
    return states
