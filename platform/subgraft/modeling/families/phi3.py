"""Phi-3 and Phi-4-mini (Abdin et al., 2024): Llama's layers with fused projections and partly rotated heads."""

from __future__ import annotations

from subgraft.modeling.families.llama import LlamaLike
from subgraft.modeling.families.model_parts import Config, Projection


class Phi3(LlamaLike):
    """One linear map computes queries, keys and values, another the gate and the inner states.

    CTranslate2's loader reads modules that transformers 5 does not have.
    """

    model_type = "phi3"
    transformers_class = "Phi3ForCausalLM"

    def projections(self, config: Config) -> list[Projection]:
        width, inner, layers = self.width(config), self.inner_width(config), self.depth(config)
        queries, keys = self._attention_widths(config)
        return [
            Projection("qkv_proj", width, queries + 2 * keys, layers),
            Projection("o_proj", queries, width, layers),
            Projection("gate_up_proj", width, 2 * inner, layers),
            Projection("mlp.down_proj", inner, width, layers),
        ]
