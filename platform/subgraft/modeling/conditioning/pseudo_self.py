"""Pseudo-self attention: the source's keys and values precede the target's (Ziegler et al., 2019).

PSA(X, Y) = softmax((Y W_q) [X U_k; Y W_k]^T / sqrt(d_h)) [X U_v; Y W_v], in every layer; only U is new.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from transformers import EncoderDecoderCache, PreTrainedConfig, PreTrainedModel

from subgraft.modeling.conditioning.variant import Heads, Memory, Variant, attended, length_of, own_cache

# The standard deviation of GPT-2's own projections: scores and values of the source start near zero.
SCALE = 0.02


class PseudoSelf(Variant):
    """U of each layer [d, 2 h d_h] with its bias: keys of the source, then values.

    The model's cache starts with them. Positions count the target only, so the model's limit is the target's. The
    source's keys have no position: with rotary positions, all its rows are at the position where the target begins.
    """

    def __init__(self, config: PreTrainedConfig) -> None:
        super().__init__(config)
        self._heads = Heads.of(config)
        both = 2 * self._heads.heads * self._heads.size
        self.projections = nn.ModuleList(nn.Linear(config.hidden_size, both) for _ in range(self._heads.layers))
        for projection in self.projections:
            nn.init.normal_(projection.weight, std=SCALE)  # type: ignore[arg-type]
            nn.init.zeros_(projection.bias)  # type: ignore[arg-type]

    def states(
        self, language_model: PreTrainedModel, memory: Memory, cache: EncoderDecoderCache | None, **inputs: Tensor
    ) -> Tensor:
        keys, rows = own_cache(cache), memory.states.shape[1]
        if keys.get_seq_length() == 0:
            for layer in range(self._heads.layers):
                keys.update(*self.keys_and_values(memory.states, layer), layer)
        seen, (_, length) = keys.get_seq_length() - rows, length_of(inputs)
        positions = torch.arange(seen, seen + length, device=memory.mask.device)[None]
        top: Tensor = language_model.base_model(
            attention_mask=attended(memory, seen + length),
            position_ids=positions,
            past_key_values=keys,
            use_cache=True,
            **inputs,
        ).last_hidden_state
        return top

    def keys_and_values(self, source: Tensor, layer: int) -> tuple[Tensor, Tensor]:
        """X U_k and X U_v of a layer, each [B, h, S, d_h]. source: X [B, S, d]."""
        rows = self.projections[layer](source).unflatten(-1, (2, self._heads.heads, self._heads.size))
        keys, values = rows.permute(2, 0, 3, 1, 4)
        return keys, values
