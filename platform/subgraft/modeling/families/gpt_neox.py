"""GPT-NeoX (Black et al., 2022), of which Pythia (Biderman et al., 2023) is: rotary positions, parallel residuals."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from subgraft.modeling.families import parameter_counts
from subgraft.modeling.families.decoder_only import DecoderOnly
from subgraft.modeling.families.llama import rotary_scaling
from subgraft.modeling.families.model_parts import Config, Parameters, Projection

if TYPE_CHECKING:
    from transformers import PreTrainedModel

_FEED_FORWARD = ("dense_h_to_4h", "dense_4h_to_h")


class GPTNeoX(DecoderOnly):
    """Taken from checkpoints only."""

    model_type = "gpt_neox"
    transformers_class = "GPTNeoXForCausalLM"
    ctranslate2_loader = "GPTNeoXLoader"
    tied = False

    def ctranslate2_settings(self, config: Config) -> Mapping[str, Any]:
        """The rotated part of a head, under the name that configurations had before transformers 5."""
        return {"rotary_pct": rotary_scaling(config).get("partial_rotary_factor", config.get("rotary_pct", 0.25))}

    def ctranslate2_specification(self, model: PreTrainedModel) -> Any:
        """The loader expects the output projection under its name before transformers 5."""
        if not hasattr(model, "embed_out"):
            model.add_module("embed_out", self.side(model, "decoder").output)
        return super().ctranslate2_specification(model)

    def body_parameters(self, config: Config) -> Parameters:
        norm, bias = parameter_counts.norm(self.width(config)), config.get("attention_bias", True)
        maps = parameter_counts.maps(self.projections(config), lambda name: bias or "dense_" in name)
        total = maps + (2 * self.depth(config) + 1) * norm
        return Parameters(total, total)

    def projections(self, config: Config) -> list[Projection]:
        """One linear map computes queries, keys and values."""
        sizes = self.width(config), self.inner_width(config), self.depth(config)
        return parameter_counts.fused_projections("query_key_value", "attention.dense", _FEED_FORWARD, *sizes)
