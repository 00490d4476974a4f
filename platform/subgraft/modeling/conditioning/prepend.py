"""Prepending: the source precedes the target in the language model's input (Ziegler et al., 2019)."""

from __future__ import annotations

import torch
from torch import Tensor
from transformers import EncoderDecoderCache, PreTrainedModel

from subgraft.modeling.conditioning.variant import Memory, Variant, attended, input_embeddings, length_of, own_cache


class Prepend(Variant):
    """It has no new parameters except the source encoder's, and none at all if that is the model's embeddings.

    Positions count source and target, which together must not exceed the model's limit. Padding follows the source's
    rows and is not counted in positions.
    """

    def states(
        self, language_model: PreTrainedModel, memory: Memory, cache: EncoderDecoderCache | None, **inputs: Tensor
    ) -> Tensor:
        keys, rows = own_cache(cache), memory.states.shape[1]
        first, (_, length) = keys.get_seq_length() == 0, length_of(inputs)
        seen = 0 if first else keys.get_seq_length() - rows
        device = memory.mask.device
        positions = memory.mask.sum(1, keepdim=True) + torch.arange(seen, seen + length, device=device)
        model_inputs = inputs
        if first:
            embedded = input_embeddings(language_model, inputs)
            model_inputs = {"inputs_embeds": torch.cat([memory.states.to(embedded.dtype), embedded], dim=1)}
            before = torch.arange(rows, device=device).expand(len(positions), -1)
            positions = torch.cat([before, positions], dim=1)
        top: Tensor = language_model.base_model(
            attention_mask=attended(memory, seen + length),
            position_ids=positions,
            past_key_values=keys,
            use_cache=True,
            **model_inputs,
        ).last_hidden_state
        return top[:, -length:]
