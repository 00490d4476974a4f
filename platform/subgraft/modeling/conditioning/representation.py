"""Representations of a frozen language model as the inputs of a smaller decoder (Ziegler et al., 2019).

The inputs are a mix of the model's layers, gamma sum_j softmax(w)_j h_j (ELMo: Peters et al., NAACL 2018, section 3.2).
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn.functional import layer_norm
from transformers import EncoderDecoderCache, PreTrainedConfig, PreTrainedModel

from subgraft.modeling.conditioning.source_decoder import SourceDecoder
from subgraft.modeling.conditioning.variant import Heads, Memory, Variant, all_targets, own_cache


class Representation(Variant):
    """The decoder's states are mapped back to the language model's width and read by its frozen projection."""

    def __init__(self, config: PreTrainedConfig, width: int, layers: int, heads: int, dropout: float) -> None:
        super().__init__(config)
        model_width, depth = int(config.hidden_size), Heads.of(config).layers
        self.mix = nn.Parameter(torch.zeros(depth + 1))
        # One-dimensional, because DeepSpeed cannot send a scalar parameter to its workers.
        self.gamma = nn.Parameter(torch.ones(1))
        self.read = nn.Linear(model_width, width)
        self.decoder = SourceDecoder(width, model_width, layers, heads, dropout, first=depth)
        self.write = nn.Linear(width, model_width)

    def states(
        self, language_model: PreTrainedModel, memory: Memory, cache: EncoderDecoderCache | None, **inputs: Tensor
    ) -> Tensor:
        own = None if cache is None else own_cache(cache)
        layers = language_model.base_model(
            attention_mask=all_targets(cache, inputs),
            past_key_values=own,
            use_cache=cache is not None,
            output_hidden_states=True,
            **inputs,
        ).hidden_states
        states: Tensor = self.write(self.decoder(self.read(self.mixed(layers)), memory, cache))
        return states

    def mixed(self, layers: tuple[Tensor, ...]) -> Tensor:
        """The weighted sum [B, T, d] of all layers' normed states, input first; norms of deeper layers are larger."""
        shares = self.mix.softmax(0)
        normed = (layer_norm(layer, layer.shape[-1:]) for layer in layers)
        mixed: Tensor = self.gamma * sum(share * layer for share, layer in zip(shares, normed, strict=True))
        return mixed
