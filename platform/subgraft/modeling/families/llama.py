"""Llama (Touvron et al., 2023) and families with its layers: rotary positions, gated feed-forward layers, root mean
square norms and grouped queries. All but Llama are taken from checkpoints only."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar

from subgraft.base.errors import UserError
from subgraft.modeling.families import parameter_counts
from subgraft.modeling.families.decoder_only import DecoderOnly, token_ids
from subgraft.modeling.families.gguf_layout import (
    Gemma2Layout,
    Gemma3Layout,
    GemmaLayout,
    GgufLayout,
    LlamaLayout,
    Phi3Layout,
    QwenLayout,
)
from subgraft.modeling.families.model_parts import Config, Parameters, Projection, rotary_scaling

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
        """False if the total width of the heads is not the model's, or for scalings that are not in `SCALINGS`."""
        as_wide = self.exports_wide_heads or self._attention_widths(config)[0] == self.width(config)
        return super().runs_in_ctranslate2(config) and as_wide and rotary_scaling(config)["rope_type"] in SCALINGS

    def ctranslate2_specification(self, model: PreTrainedModel) -> Any:
        """Add the scaling's factor and original length, which CTranslate2's loader omits."""
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
    gguf = LlamaLayout()
    qkv_bias = out_bias = "attention_bias"
    mlp_bias = "mlp_bias"

    def config_dict(self, settings: LlamaSettings, encoder_size: int, decoder_size: int) -> dict[str, Any]:
        groups = {"num_key_value_heads": settings.key_value_heads or settings.attention_heads}
        return {
            **super().config_dict(settings, encoder_size, decoder_size),
            **groups,
            "tie_word_embeddings": settings.tied,
        }

    def new_config(self, settings: LlamaSettings, encoder: Tokenizer, decoder: Tokenizer) -> dict[str, Any]:
        sizes = self.config_dict(settings, len(decoder), len(decoder))
        return {**sizes, "attention_dropout": settings.attention_dropout, **token_ids(decoder)}


class Mistral(LlamaLike):
    """Mistral (Jiang et al., 2023): attention may be limited to a window."""

    model_type = "mistral"
    transformers_class = "MistralForCausalLM"
    ctranslate2_loader = "MistralLoader"
    gguf = LlamaLayout()


class Qwen2(LlamaLike):
    """Qwen2 and Qwen2.5 (Yang et al., 2024): queries, keys and values always have a bias.

    Texts have no beginning token, only the previous text's end token.
    """

    model_type = "qwen2"
    transformers_class = "Qwen2ForCausalLM"
    ctranslate2_loader = "Qwen2Loader"
    gguf = QwenLayout("qwen2")
    qkv_bias = True


class Qwen3(LlamaLike):
    """Qwen3 (2025): each head's queries and keys are normalised; biases exist only if config.json says so."""

    model_type = "qwen3"
    transformers_class = "Qwen3ForCausalLM"
    ctranslate2_loader = "Qwen3Loader"
    gguf = QwenLayout("qwen3")
    qkv_bias = out_bias = "attention_bias"
    head_norms = True
    head_size = 128
    exports_wide_heads = True


class Phi3(LlamaLike):
    """Phi-3 and Phi-4-mini (Abdin et al., 2024): partly rotated heads and fused projections.

    One linear map computes queries, keys and values, another the gate and the inner states.
    CTranslate2's loader reads modules that transformers 5 does not have.
    """

    model_type = "phi3"
    transformers_class = "Phi3ForCausalLM"
    gguf = Phi3Layout()

    def projections(self, config: Config) -> list[Projection]:
        width, inner, layers = self.width(config), self.inner_width(config), self.depth(config)
        queries, keys = self._attention_widths(config)
        return [
            Projection("qkv_proj", width, queries + 2 * keys, layers),
            Projection("o_proj", queries, width, layers),
            Projection("gate_up_proj", width, 2 * inner, layers),
            Projection("mlp.down_proj", inner, width, layers),
        ]


class Gemma(LlamaLike):
    """Gemma (Google DeepMind, 2024): wide heads; scaled embeddings, tied to the output projection."""

    model_type = "gemma"
    transformers_class = "GemmaForCausalLM"
    ctranslate2_loader: ClassVar[str | None] = "GemmaLoader"
    gguf: ClassVar[GgufLayout | None] = GemmaLayout()
    tied = True
    qkv_bias = out_bias = "attention_bias"
    head_size = 256
    exports_wide_heads = True


class Gemma2(Gemma):
    """Gemma 2 (2024) also normalises the output of each part of a layer; some layers attend to a window only.

    Logits are capped, of tokens and of attention; `Side.cap` is that of tokens.
    """

    model_type = "gemma2"
    transformers_class = "Gemma2ForCausalLM"
    ctranslate2_loader = None
    gguf = Gemma2Layout()
    norms = 4


class Gemma3(Gemma):
    """The language model of Gemma 3 (2025), as which the sizes 270M and 1B are published; norms as in Gemma 2."""

    model_type = "gemma3_text"
    transformers_class = "Gemma3ForCausalLM"
    ctranslate2_loader = "Gemma3Loader"
    gguf = Gemma3Layout()
    norms = 4
    head_norms = True

    def runs_in_ctranslate2(self, config: Config) -> bool:
        """Only if the positions of no kind of layer are scaled, and attention is scaled by the width of a head."""
        kinds = _rotary_by_layer(config).values()
        plain = all((kind.get("rope_type") or "default") == "default" for kind in kinds)
        usual = config.get("query_pre_attn_scalar", self._head_size(config)) == self._head_size(config)
        return super().runs_in_ctranslate2(config) and plain and usual

    def ctranslate2_settings(self, config: Config) -> Mapping[str, Any]:
        """The bases of rotary positions, under the names that configurations had before transformers 5."""
        names = {"full_attention": "rope_theta", "sliding_attention": "rope_local_base_freq"}
        kinds = _rotary_by_layer(config)
        return {names[kind]: kinds[kind]["rope_theta"] for kind in names if "rope_theta" in kinds.get(kind, {})}


def _rotary_by_layer(config: Config) -> Mapping[str, Mapping[str, Any]]:
    """Rotary positions of layers with full and with sliding attention."""
    kinds = config.get("rope_parameters") or {}
    return {name: kind for name, kind in kinds.items() if isinstance(kind, Mapping)}
