# mypy: allow-untyped-calls
"""A small Transformer decoder (Vaswani et al., 2017) that reads the source next to a frozen language model."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn
from torch.nn.functional import scaled_dot_product_attention
from transformers import EncoderDecoderCache
from transformers.cache_utils import DynamicLayer

from subgraft.modeling.conditioning.variants.variant import Memory, StackSettings


class SourceDecoder(nn.Module):
    """Pre-norm layers of self-attention, cross-attention to the source, and a feed-forward part.

    It maps states [B, T, width] to states of the same shape. first: the index of its first layer in the cache, which
    follows the language model's layers.
    """

    def __init__(self, width: int, memory: int, layers: int, heads: int, dropout: float, first: int) -> None:
        super().__init__()
        self.layers = nn.ModuleList(_Layer(width, memory, heads, dropout, first + number) for number in range(layers))
        self.norm = nn.LayerNorm(width)

    @classmethod
    def of(cls, sizes: StackSettings, memory: int, first: int) -> SourceDecoder:
        """The decoder that settings describe, which reads states of the width `memory`."""
        return cls(sizes.d_model, memory, sizes.layers, sizes.attention_heads, sizes.dropout, first)

    def forward(self, inputs: Tensor, memory: Memory, cache: EncoderDecoderCache | None) -> Tensor:
        hidden = inputs
        for layer in self.layers:
            hidden = layer(hidden, memory, cache)
        normed: Tensor = self.norm(hidden)
        return normed


class _Layer(nn.Module):
    def __init__(self, width: int, memory: int, heads: int, dropout: float, layer_index: int) -> None:
        super().__init__()
        self._heads, self._layer_index = heads, layer_index
        self.norms = nn.ModuleList(nn.LayerNorm(width) for _ in range(3))
        self.own = nn.Linear(width, 3 * width)
        self.own_output = nn.Linear(width, width)
        self.query = nn.Linear(width, width)
        self.source = nn.Linear(memory, 2 * width)
        self.source_output = nn.Linear(width, width)
        self.feed_forward = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))
        self.dropout = nn.Dropout(dropout)

    def forward(self, hidden: Tensor, memory: Memory, cache: EncoderDecoderCache | None) -> Tensor:
        hidden = hidden + self.dropout(self._attend(self.norms[0](hidden), cache))
        hidden = hidden + self.dropout(self._attend_to_source(self.norms[1](hidden), memory))
        fed: Tensor = self.dropout(self.feed_forward(self.norms[2](hidden)))
        return hidden + fed

    def _attend(self, hidden: Tensor, cache: EncoderDecoderCache | None) -> Tensor:
        query, key, value = (self._split_heads(part) for part in self.own(hidden).chunk(3, -1))
        if cache is not None:
            own_cache = cache.self_attention_cache
            # `generate` creates a cache with as many layers as the language model has.
            own_cache.layers.extend(DynamicLayer() for _ in range(len(own_cache.layers), self._layer_index + 1))
            key, value = own_cache.update(key, value, self._layer_index)
        length, seen = query.shape[2], key.shape[2]
        visible = torch.ones(length, seen, dtype=torch.bool, device=query.device).tril(seen - length)
        return self._merge_heads(self.own_output, scaled_dot_product_attention(query, key, value, attn_mask=visible))

    def _attend_to_source(self, hidden: Tensor, memory: Memory) -> Tensor:
        key, value = (self._split_heads(part) for part in self.source(memory.states).chunk(2, -1))
        visible = memory.mask.bool()[:, None, None]
        query = self._split_heads(self.query(hidden))
        added = self._merge_heads(
            self.source_output, scaled_dot_product_attention(query, key, value, attn_mask=visible)
        )
        # A completely masked source adds nothing.
        return added.where(visible.any(-1), added.new_zeros(()))

    def _split_heads(self, states: Tensor) -> Tensor:
        split: Tensor = states.unflatten(-1, (self._heads, -1)).transpose(1, 2)
        return split

    def _merge_heads(self, output: nn.Module, attended: Tensor) -> Tensor:
        joined: Tensor = output(attended.transpose(1, 2).flatten(2))
        return joined


def sinusoids(start: int, length: int, width: int, device: torch.device) -> Tensor:
    """Sinusoidal positions [length, width] from `start` on, of any length (Vaswani et al., 2017, section 3.5)."""
    positions = torch.arange(start, start + length, device=device, dtype=torch.float32)[:, None]
    rates = torch.exp(torch.arange(0, width, 2, device=device, dtype=torch.float32) * (-math.log(10000.0) / width))
    return torch.stack([(positions * rates).sin(), (positions * rates).cos()], -1).flatten(1)[:, :width]
