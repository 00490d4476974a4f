"""OPT (Zhang et al., 2022): a decoder-only model with learned positions and BART's layers."""

from __future__ import annotations

from subgraft.base.errors import UserError
from subgraft.modeling.families import parameter_counts
from subgraft.modeling.families.decoder_only import DecoderOnly
from subgraft.modeling.families.mbart import POSITION_OFFSET
from subgraft.modeling.families.model_parts import Config, Parameters, Projection


class OPT(DecoderOnly):
    """Taken from checkpoints only."""

    model_type = "opt"
    transformers_class = "OPTForCausalLM"
    ctranslate2_loader = "OPTLoader"
    tied = True
    inner_width_key = "ffn_dim"

    def check(self, config: Config) -> None:
        """Raises UserError for the one published size (350M) whose embeddings are narrower than its layers."""
        if config.get("word_embed_proj_dim", config["hidden_size"]) != config["hidden_size"]:
            raise UserError(
                "this OPT model has embeddings narrower than its hidden states, which is not supported",
                hint="OPT's other sizes are: 125M, 1.3B, 2.7B, …",
            )

    def body_parameters(self, config: Config) -> Parameters:
        width, bias = self.width(config), config.get("enable_bias", True)
        norm = parameter_counts.norm(width) if config.get("layer_norm_elementwise_affine", True) else 0
        maps = parameter_counts.maps(self.projections(config), lambda _: bool(bias))
        positions = (config["max_position_embeddings"] + POSITION_OFFSET) * width
        last = norm if config.get("do_layer_norm_before", True) else 0
        total = positions + maps + self.depth(config) * 2 * norm + last
        return Parameters(total, total)

    def projections(self, config: Config) -> list[Projection]:
        attention, inner = ("q_proj", "k_proj", "v_proj", "out_proj"), ("fc1", "fc2")
        sizes = self.width(config), self.inner_width(config), self.depth(config)
        return parameter_counts.projections(attention, inner, *sizes)
