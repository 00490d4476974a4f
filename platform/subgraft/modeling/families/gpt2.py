"""GPT-2 (Radford et al., 2019): a decoder-only model with learned positions and a tied output projection."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from subgraft.modeling.families import parameter_counts
from subgraft.modeling.families.decoder_only import DecoderOnly, token_ids
from subgraft.modeling.families.model_parts import Config, Parameters, Projection

if TYPE_CHECKING:
    from subgraft.config.models import GPT2Settings
    from subgraft.subwords.vocabulary.tokenizer import Tokenizer


class GPT2(DecoderOnly):
    """Its config.json has its own names for sizes: n_embd, n_layer, n_positions, …"""

    model_type = "gpt2"
    transformers_class = "GPT2LMHeadModel"
    ctranslate2_loader = "GPT2Loader"
    tied = True
    transposed = True
    attends_to_source = True
    width_key, inner_width_key, layers_key = "n_embd", "n_inner", "n_layer"
    heads_key, positions_key = "n_head", "n_positions"

    def inner_width(self, config: Config) -> int:
        return int(config.get("n_inner") or 4 * config["n_embd"])

    def body_parameters(self, config: Config) -> Parameters:
        width = self.width(config)
        layers = self.depth(config) * parameter_counts.encoder_layer(width, self.inner_width(config))
        total = config["n_positions"] * width + layers + parameter_counts.norm(width)
        return Parameters(total, total)

    def projections(self, config: Config) -> list[Projection]:
        """One linear map computes queries, keys and values."""
        sizes = self.width(config), self.inner_width(config), self.depth(config)
        return parameter_counts.fused_projections("c_attn", "attn.c_proj", ("c_fc", "mlp.c_proj"), *sizes)

    def described(self, settings: GPT2Settings, encoder_size: int, decoder_size: int) -> dict[str, Any]:
        return {
            "model_type": self.model_type,
            "vocab_size": decoder_size,
            "n_embd": settings.d_model,
            "n_layer": settings.layers,
            "n_head": settings.attention_heads,
            "n_inner": settings.ffn_dim,
            "n_positions": settings.max_positions,
        }

    def new_config(self, settings: GPT2Settings, encoder: Tokenizer, decoder: Tokenizer) -> dict[str, Any]:
        return {
            **self.described(settings, len(decoder), len(decoder)),
            "resid_pdrop": settings.dropout,
            "embd_pdrop": settings.dropout,
            "attn_pdrop": settings.attention_dropout,
            **token_ids(decoder),
        }
