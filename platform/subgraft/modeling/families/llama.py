"""Llama (Touvron et al., 2023): a decoder-only model with rotary positions, gated layers and grouped queries."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from subgraft.base.errors import UserError
from subgraft.modeling.families.decoder_only import DecoderAlone, token_ids
from subgraft.modeling.families.model_parts import Config, Parameters, Projection
from subgraft.modeling.families.parameter_counts import linear

if TYPE_CHECKING:
    from transformers import PreTrainedModel

    from subgraft.config.models import LlamaSettings
    from subgraft.subwords.vocabulary.tokenizer import Tokenizer

# How positions may be scaled for CTranslate2 to compute what transformers does.
SCALINGS = ("default", "linear", "llama3")


class Llama(DecoderAlone):
    """Positions are computed, not stored: the limit is the length that the model was trained for."""

    model_type = "llama"
    tied = False

    def depth(self, config: Config) -> int:
        return int(config["num_hidden_layers"])

    def width(self, config: Config) -> int:
        return int(config["hidden_size"])

    def inner_width(self, config: Config) -> int:
        return int(config["intermediate_size"])

    def key_width(self, config: Config) -> int:
        return self._heads(config)[1]

    def body_parameters(self, config: Config) -> Parameters:
        """Each layer: grouped attention, a gated feed-forward part, and two norms with a gain only."""
        width, inner = self.width(config), self.inner_width(config)
        queries, keys = self._heads(config)
        bias, inner_bias = config.get("attention_bias", False), config.get("mlp_bias", False)
        attention = linear(width, queries, bias) + 2 * linear(width, keys, bias) + linear(queries, width, bias)
        gated = 2 * linear(width, inner, inner_bias) + linear(inner, width, inner_bias)
        total = self.depth(config) * (attention + gated + 2 * width) + width
        return Parameters(total, total)

    def projections(self, config: Config) -> list[Projection]:
        width, inner, layers = self.width(config), self.inner_width(config), self.depth(config)
        queries, keys = self._heads(config)
        sizes = {
            "q_proj": (width, queries),
            "k_proj": (width, keys),
            "v_proj": (width, keys),
            "o_proj": (queries, width),
        }
        sizes |= {"gate_proj": (width, inner), "up_proj": (width, inner), "down_proj": (inner, width)}
        return [Projection(name, *size, layers) for name, size in sizes.items()]

    def _heads(self, config: Config) -> tuple[int, int]:
        """The total width of queries, and of keys, which is also that of values."""
        heads, size = config["num_attention_heads"], self._head_size(config)
        return heads * size, (config.get("num_key_value_heads") or heads) * size

    def _head_size(self, config: Config) -> int:
        return int(config.get("head_dim") or self.width(config) // config["num_attention_heads"])

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

    def build(self, settings: LlamaSettings, encoder: Tokenizer, decoder: Tokenizer, seed: int) -> PreTrainedModel:
        from transformers import LlamaConfig

        from subgraft.modeling.families.initialization import initialised

        described = self.described(settings, len(decoder), len(decoder))
        del described["model_type"]
        config = LlamaConfig(**described, attention_dropout=settings.attention_dropout, **token_ids(decoder))
        return initialised(self.model_class(), config, seed)

    def model_class(self) -> type[PreTrainedModel]:
        from transformers import LlamaForCausalLM

        return LlamaForCausalLM

    def post_init(self, model: PreTrainedModel) -> None:
        """Set the padding row as in a model that is constructed from config.json."""
        self.input_table(model, "decoder").padding_idx = model.config.pad_token_id

    def runs_in_ctranslate2(self, config: Config) -> bool:
        return self._heads(config)[0] == self.width(config) and _scaling(config)["rope_type"] in SCALINGS

    def ctranslate2_specification(self, model: PreTrainedModel) -> Any:
        """Raises UserError if the heads do not add up to the model's width, and for unsupported position scalings."""
        from subgraft.modeling.families.ctranslate2_loading import specification

        config = model.config.to_dict()
        if not self.runs_in_ctranslate2(config):
            raise UserError(
                "CTranslate2 takes no Llama whose heads together are wider or narrower than the model, or whose "
                f"positions are scaled otherwise than {', '.join(SCALINGS)}"
            )
        specified = specification("LlamaLoader", model)
        specified.config.layer_norm_epsilon = config["rms_norm_eps"]
        if _scaling(config)["rope_type"] == "llama3":
            for layer in specified.decoder.layer:
                _scale(layer.self_attention, _scaling(config))
        return specified


def _scaling(config: Config) -> Mapping[str, Any]:
    """The scaling of positions, under the names of older and newer config.json files."""
    given = config.get("rope_parameters") or config.get("rope_scaling") or {}
    return {**given, "rope_type": given.get("rope_type") or given.get("type") or "default"}


def _scale(attention: Any, scaling: Mapping[str, Any]) -> None:
    """Set the factor and the original length of a scaling, which CTranslate2's loader omits."""
    import numpy as np

    told = {
        "rotary_scaling_factor": np.float32(scaling["factor"]),
        "original_max_position_embeddings": np.int32(scaling["original_max_position_embeddings"]),
    }
    for name, value in told.items():
        object.__setattr__(attention, name, value)  # past a guard against names that the description did not have
