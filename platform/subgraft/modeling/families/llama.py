"""Llama (Touvron et al., 2023), and the base of families with its layers: rotary positions, gated feed-forward layers,
root mean square norms and grouped queries."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar

from subgraft.base.errors import UserError
from subgraft.modeling.families import parameter_counts
from subgraft.modeling.families.decoder_only import DecoderOnly, token_ids
from subgraft.modeling.families.model_parts import Config, Parameters, Projection

if TYPE_CHECKING:
    from transformers import PreTrainedModel

    from subgraft.config.models import LlamaSettings
    from subgraft.subwords.vocabulary.tokenizer import Tokenizer

# The scalings of rotary positions with which CTranslate2 computes what transformers does.
SCALINGS = ("default", "linear", "llama3")


class LlamaLike(DecoderOnly):
    """Models with Llama's layers. Positions are computed, not stored: their limit is the length in training.

    Attributes:
        qkv_bias, out_bias, mlp_bias: Whether the projections of queries, keys and values, of the attention's output,
            and of the feed-forward layer have a bias: True or False, or the name of the entry in config.json.
        norms: The number of norms in a layer.
        head_norms: Whether the queries and keys of each head are normalised.
        head_size: The width of a head if config.json has no `head_dim`; None for width / heads.
        exports_wide_heads: Whether CTranslate2's loader takes heads that together are not as wide as the model.
    """

    tied = False
    qkv_bias: ClassVar[bool | str] = False
    out_bias: ClassVar[bool | str] = False
    mlp_bias: ClassVar[bool | str] = False
    norms: ClassVar[int] = 2
    head_norms: ClassVar[bool] = False
    head_size: ClassVar[int | None] = None
    exports_wide_heads: ClassVar[bool] = False

    def key_width(self, config: Config) -> int:
        return self._attention_widths(config)[1]

    def body_parameters(self, config: Config) -> Parameters:
        """The projections and norms of each layer, and the norm at the top. Norms have a gain only."""
        projections = parameter_counts.maps(self.projections(config), lambda name: self._has_bias(config, name))
        norms = self.norms * self.width(config) + (2 * self._head_size(config) if self.head_norms else 0)
        total = projections + self.depth(config) * norms + self.width(config)
        return Parameters(total, total)

    def projections(self, config: Config) -> list[Projection]:
        width, inner = self.width(config), self.inner_width(config)
        queries, keys = self._attention_widths(config)
        sizes = {
            "q_proj": (width, queries),
            "k_proj": (width, keys),
            "v_proj": (width, keys),
            "o_proj": (queries, width),
            "gate_proj": (width, inner),
            "up_proj": (width, inner),
            "down_proj": (inner, width),
        }
        return [Projection(name, *size, self.depth(config)) for name, size in sizes.items()]

    def _has_bias(self, config: Config, projection: str) -> bool:
        of_attention = self.out_bias if projection == "o_proj" else self.qkv_bias
        bias = self.mlp_bias if projection in ("gate_proj", "up_proj", "gate_up_proj", "down_proj") else of_attention
        return bool(config.get(bias)) if isinstance(bias, str) else bias

    def _attention_widths(self, config: Config) -> tuple[int, int]:
        """The total width of queries, and of keys, which is also that of values."""
        heads, size = config[self.heads_key], self._head_size(config)
        return heads * size, (config.get("num_key_value_heads") or heads) * size

    def _head_size(self, config: Config) -> int:
        return int(config.get("head_dim") or self.head_size or self.width(config) // config[self.heads_key])

    def post_init(self, model: PreTrainedModel) -> None:
        """Set the padding row as in a model that is constructed from config.json."""
        self.input_table(model, "decoder").padding_idx = model.config.pad_token_id

    def runs_in_ctranslate2(self, config: Config) -> bool:
        """Not if the heads together are wider or narrower than the model, or for other scalings than `SCALINGS`."""
        as_wide = self.exports_wide_heads or self._attention_widths(config)[0] == self.width(config)
        return super().runs_in_ctranslate2(config) and as_wide and rotary_scaling(config)["rope_type"] in SCALINGS

    def ctranslate2_specification(self, model: PreTrainedModel) -> Any:
        """With the scaling's factor and original length, which CTranslate2's loader omits."""
        import numpy as np

        config = model.config.to_dict()
        if self.ctranslate2_loader is not None and not self.runs_in_ctranslate2(config):
            raise UserError(
                f"CTranslate2 supports no {self.model_type} model whose heads together are wider or narrower than the "
                f"model, or whose positions are scaled otherwise than {', '.join(SCALINGS)}"
            )
        specification = super().ctranslate2_specification(model)
        specification.config.layer_norm_epsilon = config["rms_norm_eps"]
        scaling = rotary_scaling(config)
        if scaling["rope_type"] == "llama3":
            factor, original = scaling["factor"], scaling["original_max_position_embeddings"]
            for layer in specification.decoder.layer:
                # object's: the specification's own __setattr__ refuses names that it does not have yet.
                object.__setattr__(layer.self_attention, "rotary_scaling_factor", np.float32(factor))
                object.__setattr__(layer.self_attention, "original_max_position_embeddings", np.int32(original))
        return specification


class Llama(LlamaLike):
    """Llama itself, of which new models can be built."""

    model_type = "llama"
    transformers_class = "LlamaForCausalLM"
    ctranslate2_loader = "LlamaLoader"
    qkv_bias = out_bias = "attention_bias"
    mlp_bias = "mlp_bias"

    def described(self, settings: LlamaSettings, encoder_size: int, decoder_size: int) -> dict[str, Any]:
        return {
            "model_type": self.model_type,
            "vocab_size": decoder_size,
            "hidden_size": settings.d_model,
            "num_hidden_layers": settings.layers,
            "num_attention_heads": settings.attention_heads,
            "num_key_value_heads": settings.key_value_heads or settings.attention_heads,
            "intermediate_size": settings.ffn_dim,
            "max_position_embeddings": settings.max_positions,
            "tie_word_embeddings": settings.tied,
        }

    def new_config(self, settings: LlamaSettings, encoder: Tokenizer, decoder: Tokenizer) -> dict[str, Any]:
        sizes = self.described(settings, len(decoder), len(decoder))
        return {**sizes, "attention_dropout": settings.attention_dropout, **token_ids(decoder)}


def rotary_scaling(config: Config) -> Mapping[str, Any]:
    """The scaling of positions, under the names of older and newer config.json files."""
    scaling = config.get("rope_parameters") or config.get("rope_scaling") or {}
    return {**scaling, "rope_type": scaling.get("rope_type") or scaling.get("type") or "default"}
