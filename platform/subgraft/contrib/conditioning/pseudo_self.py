"""Pseudo-self attention (Ziegler et al., 2019): keys and values of the source before the target's own."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from subgraft.modeling.conditioning.variants.variant import (
    Heads,
    Memory,
    PartCounts,
    StackSettings,
    Variant,
    batch_shape,
    states_after_source,
    target_cache,
)

if TYPE_CHECKING:
    from torch import Tensor
    from transformers import EncoderDecoderCache, PreTrainedConfig, PreTrainedModel


# The standard deviation of GPT-2's own projections: scores and values of the source start near zero.
INIT_STD = 0.02


class PseudoSelf(Variant):
    """The source's keys and values precede the target's.

    PSA(X, Y) = softmax((Y W_q) [X U_k; Y W_k]^T / sqrt(d_h)) [X U_v; Y W_v], in every layer; only U is new.

    U of each layer [d, 2 h d_h] with its bias: keys of the source, then values.
    The model's cache starts with them. Positions count the target only, so the model's limit applies to the target
    alone. The source's keys have no position: with rotary positions, all rows are at the target's first position.
    """

    name = "pseudo-self"

    def parameters(self, count: PartCounts) -> int:
        return count.layers * count.keys_and_values

    def add_modules(self, parts: Any, config: PreTrainedConfig, decoder: StackSettings) -> None:
        from torch import nn

        parts.heads = Heads.of(config)
        both = 2 * parts.heads.heads * parts.heads.size
        parts.projections = nn.ModuleList(nn.Linear(config.hidden_size, both) for _ in range(parts.heads.layers))
        for projection in parts.projections:
            nn.init.normal_(projection.weight, std=INIT_STD)
            nn.init.zeros_(projection.bias)

    def states(
        self,
        parts: Any,
        language_model: PreTrainedModel,
        memory: Memory,
        cache: EncoderDecoderCache | None,
        **inputs: Tensor,
    ) -> Tensor:
        import torch

        keys, rows = target_cache(cache), memory.states.shape[1]
        if keys.get_seq_length() == 0:
            for layer in range(parts.heads.layers):
                keys.update(*_keys_and_values(parts, memory.states, layer), layer)
        seen, (_, length) = keys.get_seq_length() - rows, batch_shape(inputs)
        positions = torch.arange(seen, seen + length, device=memory.mask.device)[None]
        return states_after_source(language_model, memory, keys, seen + length, positions, inputs)


def _keys_and_values(parts: Any, source: Tensor, layer: int) -> tuple[Tensor, Tensor]:
    """X U_k and X U_v of a layer, each [B, h, S, d_h]. source: X [B, S, d]."""
    rows = parts.projections[layer](source).unflatten(-1, (2, parts.heads.heads, parts.heads.size))
    keys, values = rows.permute(2, 0, 3, 1, 4)
    return keys, values
