"""BLOOM (Scao et al., 2022): positions by a bias on attention (ALiBi), so no limit on a text's length."""

from __future__ import annotations

from subgraft.modeling.families import parameter_counts
from subgraft.modeling.families.decoder_only import DecoderOnly
from subgraft.modeling.families.model_parts import Config, Parameters, Projection

_FEED_FORWARD = ("dense_h_to_4h", "dense_4h_to_h")


class Bloom(DecoderOnly):
    """Taken from checkpoints only. Embeddings are normalised before the first layer."""

    model_type = "bloom"
    transformers_class = "BloomForCausalLM"
    ctranslate2_loader = "BloomLoader"
    tied = True
    layers_key, heads_key = "n_layer", "n_head"

    def width(self, config: Config) -> int:
        return int(config.get("hidden_size") or config["n_embed"])

    def inner_width(self, config: Config) -> int:
        return 4 * self.width(config)

    def position_limit(self, config: Config) -> int | None:
        return None

    def body_parameters(self, config: Config) -> Parameters:
        width = self.width(config)
        layers = self.depth(config) * parameter_counts.encoder_layer(width, self.inner_width(config))
        total = layers + 2 * parameter_counts.norm(width)
        return Parameters(total, total)

    def projections(self, config: Config) -> list[Projection]:
        """One linear map computes queries, keys and values."""
        sizes = self.width(config), self.inner_width(config), self.depth(config)
        return parameter_counts.fused_projections("query_key_value", "self_attention.dense", _FEED_FORWARD, *sizes)
