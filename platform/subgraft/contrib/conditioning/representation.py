"""Representation (Ziegler et al., 2019): a smaller decoder on top of the frozen language model."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from subgraft.modeling.conditioning.variants.variant import (
    Heads,
    Memory,
    PartCounts,
    StackSettings,
    Variant,
    target_cache,
    target_mask,
)

if TYPE_CHECKING:
    from torch import Tensor
    from transformers import EncoderDecoderCache, PreTrainedConfig, PreTrainedModel


class Representation(Variant):
    """Representations of a frozen language model as the inputs of a smaller decoder.

    The inputs are a mix of the model's layers, gamma sum_j softmax(w)_j h_j (ELMo: Peters et al., NAACL 2018, section
    3.2). The decoder's states are mapped back to the language model's width and read by its frozen projection.
    """

    name = "representation"
    frozen = True

    def parameters(self, count: PartCounts) -> int:
        # Also the shares of the layers and of the input, and gamma.
        return count.read + count.decoder + count.layers + 2

    def add_modules(self, parts: Any, config: PreTrainedConfig, decoder: StackSettings) -> None:
        import torch
        from torch import nn

        from subgraft.contrib.conditioning.source_decoder import SourceDecoder

        width, depth = int(config.hidden_size), Heads.of(config).layers
        parts.mix = nn.Parameter(torch.zeros(depth + 1))
        # One-dimensional, because DeepSpeed cannot send a scalar parameter to its workers.
        parts.gamma = nn.Parameter(torch.ones(1))
        parts.read = nn.Linear(width, decoder.d_model)
        parts.decoder = SourceDecoder.of(decoder, width, first=depth)
        parts.write = nn.Linear(decoder.d_model, width)

    def states(
        self,
        parts: Any,
        language_model: PreTrainedModel,
        memory: Memory,
        cache: EncoderDecoderCache | None,
        **inputs: Tensor,
    ) -> Tensor:
        cache_of_target = None if cache is None else target_cache(cache)
        layers = language_model.base_model(
            attention_mask=target_mask(cache, inputs),
            past_key_values=cache_of_target,
            use_cache=cache is not None,
            output_hidden_states=True,
            **inputs,
        ).hidden_states
        states: Tensor = parts.write(parts.decoder(parts.read(_mix_layers(parts, layers)), memory, cache))
        return states


def _mix_layers(parts: Any, layers: tuple[Tensor, ...]) -> Tensor:
    """The weighted sum [B, T, d] of all layers' normed states, input first; norms of deeper layers are larger."""
    from torch.nn.functional import layer_norm

    shares = parts.mix.softmax(0)
    normed = (layer_norm(layer, layer.shape[-1:]) for layer in layers)
    mixed: Tensor = parts.gamma * sum(share * layer for share, layer in zip(shares, normed, strict=True))
    return mixed
