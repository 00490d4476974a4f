"""GPT-2 (Radford et al., 2019) and decoders with its layers: layer norms, and two maps in each feed-forward part.

All but GPT-2 are taken from checkpoints only.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar

from subgraft.modeling.families import parameter_counts
from subgraft.modeling.families.decoder_only import DecoderOnly, token_ids
from subgraft.modeling.families.gguf_layout import Gpt2Layout
from subgraft.modeling.families.model_parts import Config, Parameters, Projection, rotary_scaling

if TYPE_CHECKING:
    from transformers import PreTrainedModel

    from subgraft.config.models import GPT2Settings
    from subgraft.subwords.vocabulary.tokenizer import Tokenizer


class Fused(DecoderOnly):
    """Models in which one linear map computes queries, keys and values.

    maps: the names of this map, of the attention's output, and of the two maps of the feed-forward layer.
    """

    maps: ClassVar[tuple[str, str, str, str]]

    def projections(self, config: Config) -> list[Projection]:
        width, inner, layers = self.width(config), self.inner_width(config), self.depth(config)
        fused, output, *feed_forward = self.maps
        others = parameter_counts.projections((output,), feed_forward, width, inner, layers)
        return [Projection(fused, width, 3 * width, layers), *others]


class GPT2(Fused):
    """Learned positions and a tied output projection; config.json has its own names for sizes."""

    model_type = "gpt2"
    transformers_class = "GPT2LMHeadModel"
    ctranslate2_loader = "GPT2Loader"
    gguf = Gpt2Layout()
    tied = True
    transposed = True
    attends_to_source = True
    width_key, inner_width_key, layers_key = "n_embd", "n_inner", "n_layer"
    heads_key, positions_key = "n_head", "n_positions"
    maps = ("c_attn", "attn.c_proj", "c_fc", "mlp.c_proj")

    def inner_width(self, config: Config) -> int:
        return int(config.get("n_inner") or 4 * config["n_embd"])

    def body_parameters(self, config: Config) -> Parameters:
        width = self.width(config)
        layers = self.depth(config) * parameter_counts.encoder_layer(width, self.inner_width(config))
        total = config["n_positions"] * width + layers + parameter_counts.norm(width)
        return Parameters(total, total)

    def new_config(self, settings: GPT2Settings, encoder: Tokenizer, decoder: Tokenizer) -> dict[str, Any]:
        return {
            **self.config_dict(settings, len(decoder), len(decoder)),
            "resid_pdrop": settings.dropout,
            "embd_pdrop": settings.dropout,
            "attn_pdrop": settings.attention_dropout,
            **token_ids(decoder),
        }


class OPT(DecoderOnly):
    """OPT (Zhang et al., 2022): learned positions and BART's layers.

    In the size 350M embeddings are narrower than hidden states: linear maps without a bias lead to and from the layers.
    """

    model_type = "opt"
    transformers_class = "OPTForCausalLM"
    ctranslate2_loader = "OPTLoader"
    tied = True
    inner_width_key = "ffn_dim"

    def embedding_width(self, config: Config) -> int:
        return int(config.get("word_embed_proj_dim") or self.width(config))

    def body_parameters(self, config: Config) -> Parameters:
        width, bias = self.width(config), config.get("enable_bias", True)
        norm = parameter_counts.norm(width) if config.get("layer_norm_elementwise_affine", True) else 0
        maps = parameter_counts.maps(self.projections(config), lambda _: bool(bias))
        positions = parameter_counts.padded_positions(config["max_position_embeddings"], width)
        last = norm if config.get("do_layer_norm_before", True) else 0
        narrow = self.embedding_width(config)
        between = 2 * parameter_counts.linear(narrow, width, bias=False) if narrow != width else 0
        total = positions + maps + self.depth(config) * 2 * norm + last + between
        return Parameters(total, total)

    def projections(self, config: Config) -> list[Projection]:
        attention, inner = ("q_proj", "k_proj", "v_proj", "out_proj"), ("fc1", "fc2")
        sizes = self.width(config), self.inner_width(config), self.depth(config)
        return parameter_counts.projections(attention, inner, *sizes)


class GPTNeoX(Fused):
    """GPT-NeoX (Black et al., 2022) and Pythia (Biderman et al., 2023): rotary positions, parallel residuals."""

    model_type = "gpt_neox"
    transformers_class = "GPTNeoXForCausalLM"
    ctranslate2_loader = "GPTNeoXLoader"
    tied = False
    maps = ("query_key_value", "attention.dense", "dense_h_to_4h", "dense_4h_to_h")

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


class Bloom(Fused):
    """BLOOM (Scao et al., 2022): embeddings are normalised before the first layer.

    Positions are a bias on attention (ALiBi), so texts have no maximum length.
    """

    model_type = "bloom"
    transformers_class = "BloomForCausalLM"
    ctranslate2_loader = "BloomLoader"
    tied = True
    layers_key, heads_key = "n_layer", "n_head"
    maps = ("query_key_value", "self_attention.dense", "dense_h_to_4h", "dense_4h_to_h")

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
