"""Prepending (Ziegler et al., 2019): the source before the target, in the language model's input."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from subgraft.modeling.conditioning.variants.variant import (
    Memory,
    PartCounts,
    Variant,
    batch_shape,
    input_embeddings,
    states_after_source,
    target_cache,
)

if TYPE_CHECKING:
    from torch import Tensor
    from transformers import EncoderDecoderCache, PreTrainedModel


class Prepend(Variant):
    """The source precedes the target in the language model's input.

    It has no new parameters except the source encoder's, and none at all if that is the model's embeddings.

    Positions count source and target, which together must not exceed the model's limit. Padding follows the rows of the
    source and has no positions.
    """

    name = "prepend"
    in_input = True

    def parameters(self, count: PartCounts) -> int:
        return 0

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
        first, (_, length) = keys.get_seq_length() == 0, batch_shape(inputs)
        seen = 0 if first else keys.get_seq_length() - rows
        device = memory.mask.device
        positions = memory.mask.sum(1, keepdim=True) + torch.arange(seen, seen + length, device=device)
        model_inputs = inputs
        if first:
            embedded = input_embeddings(language_model, inputs)
            model_inputs = {"inputs_embeds": torch.cat([memory.states.to(embedded.dtype), embedded], dim=1)}
            before = torch.arange(rows, device=device).expand(len(positions), -1)
            positions = torch.cat([before, positions], dim=1)
        return states_after_source(language_model, memory, keys, seen + length, positions, model_inputs)[:, -length:]
