"""How llama.cpp names the sizes of a family's models, and arranges their weights; and the way back.

Names of tensors are in the package `gguf`. The keys of settings are without the architecture's prefix. Facts are from
llama.cpp's converter and its loaders (conversion/ and src/models/, October 2026).
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING, Any, ClassVar

from subgraft.base.errors import UserError
from subgraft.modeling.families.model_parts import Config, rotary_scaling

if TYPE_CHECKING:
    from torch import Tensor

Settings = dict[str, Any]
ORIGINAL_LENGTH = "rope.scaling.original_context_length"
ROPE_FACTORS, LONG_FACTORS, SHORT_FACTORS = "rope_freqs.weight", "rope_factors_long.weight", "rope_factors_short.weight"
LENGTH_FACTORS = {LONG_FACTORS: "long_factor", SHORT_FACTORS: "short_factor"}
ATTENTION_FACTOR = "rope.scaling.attn_factor"
# Settings of yarn in transformers; those of its bounds by llama.cpp's keys.
_YARN_BOUNDS = {"rope.scaling.yarn_beta_fast": "beta_fast", "rope.scaling.yarn_beta_slow": "beta_slow"}
_YARN = {
    *("rope_type", "type", "rope_theta", "factor", "original_max_position_embeddings", "truncate"),
    *("attention_factor", "mscale", "mscale_all_dim", *_YARN_BOUNDS.values()),
}
# llama.cpp's feed-forward layers compute these as transformers does.
USE_TRANSFORMERS = "Use transformers: `subgraft export --to transformers` writes what it, vLLM and others load."
SILU, GELU_TANH = ("silu", "swish"), ("gelu_pytorch_tanh", "gelu_new", "gelu_fast")


class GgufLayout:
    """The layout of a family.

    Attributes:
        architecture: llama.cpp's name of it.
        names: The names in config.json of the settings that are the same.
        transposed: The ends of the names of weights that are [inputs, outputs] in transformers.
        scaled_by_tensors: The kinds of scaled positions whose factors are a tensor.
        activations: The activation functions that llama.cpp computes, and the entry of config.json that names one.
        always_tied: Whether llama.cpp computes logits by the input embeddings alone.
    """

    architecture: ClassVar[str]
    names: ClassVar[Mapping[str, str]]
    transposed: ClassVar[tuple[str, ...]] = ()
    activations: ClassVar[tuple[str, ...]] = SILU
    activation_key: ClassVar[str] = "hidden_act"
    norm_offset: ClassVar[float] = 0.0
    scaled_by_tensors: ClassVar[tuple[str, ...]] = ()
    always_tied: ClassVar[bool] = False

    def settings(self, config: Config) -> Settings:
        """The settings. Raises UserError for what llama.cpp cannot compute."""
        if self.always_tied and not config.get("tie_word_embeddings", True):
            raise lacks(self.architecture, "output embeddings of their own")
        function = config[self.activation_key]
        if function not in self.activations:
            raise lacks(self.architecture, f"the activation function {function!r:.40}")
        return {key: config[name] for key, name in self.names.items()}

    @property
    def keys(self) -> Collection[str]:
        """The settings that `config` reads or that change nothing."""
        return {*self.names, "vocab_size", "tensor_data_layout", "rope.scaling.finetuned"}

    def config(self, settings: Mapping[str, Any], tensors: Collection[str]) -> Settings:
        """The entries of config.json, by the settings and names of tensors of a file."""
        sizes = {name: settings[key] for key, name in self.names.items() if key in settings}
        tied = {"tie_word_embeddings": "output.weight" not in tensors}
        return {**sizes, **tied, self.activation_key: self.activations[0]}

    def limits(self, config: Config) -> list[str]:
        """What llama.cpp computes differently."""
        return []

    def further_tensors(self, config: Config) -> dict[str, Tensor]:
        """Tensors that transformers computes from the configuration."""
        return {}

    def arranged(self, name: str, tensor: Tensor, config: Config) -> Tensor:
        """A tensor of transformers as llama.cpp has it."""
        if self.norm_offset and name.endswith("norm.weight"):
            return tensor.float() + self.norm_offset
        return tensor.T if name.endswith(self.transposed) else tensor

    def restored(self, name: str, tensor: Tensor, config: Config) -> Tensor:
        """The inverse of `arranged`."""
        if self.norm_offset and name.endswith("norm.weight"):
            return tensor - self.norm_offset
        return tensor.T if name.endswith(self.transposed) else tensor


def lacks(architecture: str, what: str) -> UserError:
    """The error for a model that llama.cpp would compute differently."""
    return UserError(
        f"llama.cpp's {architecture} models have no {what}",
        hint=USE_TRANSFORMERS,
    )


class RotaryLayout(GgufLayout):
    """Families with rotary positions and grouped queries.

    Attributes:
        partial: Whether a part of each head may be without positions.
    """

    partial: ClassVar[bool] = False

    names: ClassVar[Mapping[str, str]] = {
        "block_count": "num_hidden_layers",
        "context_length": "max_position_embeddings",
        "embedding_length": "hidden_size",
        "feed_forward_length": "intermediate_size",
        "attention.head_count": "num_attention_heads",
        "attention.head_count_kv": "num_key_value_heads",
        "attention.layer_norm_rms_epsilon": "rms_norm_eps",
        "vocab_size": "vocab_size",
    }

    def settings(self, config: Config) -> Settings:
        head = _head_size(config)
        rotary = self._rotary(config)
        rotated = int(head * rotary.get("partial_rotary_factor", 1.0))
        heads = {"attention.key_length": head, "attention.value_length": head, "rope.dimension_count": rotated}
        base = {"rope.freq_base": float(rotary.get("rope_theta") or config.get("rope_theta") or 10000.0)}
        return {**super().settings(config), **heads, **base, **self._scaling(rotary)}

    def _rotary(self, config: Config) -> Mapping[str, Any]:
        return rotary_scaling(config)

    def _scaling(self, rotary: Mapping[str, Any]) -> Settings:
        """The settings of scaled positions."""
        kind = rotary["rope_type"]
        original = rotary.get("original_max_position_embeddings")
        if kind in ("default", *self.scaled_by_tensors):
            return {} if original is None or kind == "default" else {ORIGINAL_LENGTH: original}
        if kind == "linear":
            return {"rope.scaling.type": "linear", "rope.scaling.factor": float(rotary["factor"])}
        stated = {name: value for name, value in rotary.items() if value is not None}
        if kind == "yarn" and original is not None and stated.keys() <= _YARN and stated.get("truncate", True):
            settings = {"rope.scaling.type": "yarn", "rope.scaling.factor": float(rotary["factor"])}
            further = {key: float(stated[name]) for key, name in _YARN_BOUNDS.items() if name in stated}
            if (share := _yarn_attention(stated) / _usual_attention(float(rotary["factor"]))) != 1:
                further[ATTENTION_FACTOR] = share
            return {**settings, **further, ORIGINAL_LENGTH: original}
        raise lacks(self.architecture, f"rotary positions that are scaled as in this model ({kind!r:.20})")

    @property
    def keys(self) -> Collection[str]:
        heads = ("attention.key_length", "attention.value_length", "rope.dimension_count", "rope.freq_base")
        scaled = ("rope.scaling.type", "rope.scaling.factor", "rope.scale_linear", ORIGINAL_LENGTH, ATTENTION_FACTOR)
        return {*super().keys, *heads, *scaled, *_YARN_BOUNDS}

    def config(self, settings: Mapping[str, Any], tensors: Collection[str]) -> Settings:
        config = super().config(settings, tensors)
        head = settings.get("attention.key_length", config["hidden_size"] // config["num_attention_heads"])
        rotary: Settings = {"rope_type": "default", "rope_theta": settings.get("rope.freq_base", 10000.0)}
        kind = settings.get("rope.scaling.type", "linear" if "rope.scale_linear" in settings else "none")
        if kind in ("linear", "yarn"):
            factor = settings.get("rope.scaling.factor", settings.get("rope.scale_linear"))
            rotary |= {"rope_type": kind, "factor": factor}
        if kind == "yarn":
            rotary["original_max_position_embeddings"] = settings[ORIGINAL_LENGTH]
            rotary |= {name: settings[key] for key, name in _YARN_BOUNDS.items() if key in settings}
            if ATTENTION_FACTOR in settings:
                rotary["attention_factor"] = settings[ATTENTION_FACTOR] * _usual_attention(factor)
        elif kind not in ("none", "linear", *self.scaled_by_tensors):
            raise UserError(f"rotary positions scaled by {kind!r:.20}, which is not supported")
        elif settings.get(ATTENTION_FACTOR, 1) != 1 and "longrope" not in self.scaled_by_tensors:
            raise UserError(f"an entry {ATTENTION_FACTOR} without yarn, which is not supported")
        if settings.get("rope.dimension_count", head) != head and not self.partial:
            raise UserError("rotary positions of a part of each head, which is not supported")
        config.setdefault("num_key_value_heads", config["num_attention_heads"])
        return {**config, "head_dim": head, "rope_parameters": rotary}

    def limits(self, config: Config) -> list[str]:
        """A window on all layers, which llama.cpp does not apply here."""
        window = config.get("sliding_window")
        if not window or window >= config["max_position_embeddings"] or config.get("use_sliding_window") is False:
            return []
        return [f"attention is not limited to {window:,} tokens, so longer texts are read differently"]


def _usual_attention(factor: float, scale: float = 1.0) -> float:
    """What yarn multiplies queries and keys by (equation 22 of its paper, with the scale of DeepSeek)."""
    return 1.0 if factor <= 1 else 0.1 * scale * math.log(factor) + 1.0


def _yarn_attention(rotary: Mapping[str, Any]) -> float:
    """The same in transformers, where it may be stated."""
    if (stated := rotary.get("attention_factor")) is not None:
        return float(stated)
    factor, own, all_dimensions = float(rotary["factor"]), rotary.get("mscale"), rotary.get("mscale_all_dim")
    if not (own and all_dimensions):
        return _usual_attention(factor)
    return _usual_attention(factor, float(own)) / _usual_attention(factor, float(all_dimensions))


class LlamaLayout(RotaryLayout):
    """Llama and Mistral: the two halves of each head's queries and keys alternate."""

    architecture = "llama"
    scaled_by_tensors = ("llama3",)

    def config(self, settings: Mapping[str, Any], tensors: Collection[str]) -> Settings:
        biases = {"attention_bias": "blk.0.attn_q.bias" in tensors, "mlp_bias": "blk.0.ffn_up.bias" in tensors}
        return {**super().config(settings, tensors), **biases}

    def further_tensors(self, config: Config) -> dict[str, Tensor]:
        """What each frequency of Llama 3's scaled positions is divided by (transformers' `rope_type: llama3`)."""
        rotary = rotary_scaling(config)
        if rotary["rope_type"] != "llama3":
            return {}
        return {ROPE_FACTORS: llama3_factors(_head_size(config), float(rotary["rope_theta"]), rotary)}

    def arranged(self, name: str, tensor: Tensor, config: Config) -> Tensor:
        heads = _permuted_heads(name, config)
        if heads is None:
            return tensor
        halves = tensor.reshape(heads, 2, len(tensor) // heads // 2, -1)
        return halves.swapaxes(1, 2).reshape(tensor.shape)

    def restored(self, name: str, tensor: Tensor, config: Config) -> Tensor:
        heads = _permuted_heads(name, config)
        if heads is None:
            return tensor
        pairs = tensor.reshape(heads, len(tensor) // heads // 2, 2, -1)
        return pairs.swapaxes(1, 2).reshape(tensor.shape)


def llama3_factors(head: int, base: float, rotary: Mapping[str, Any]) -> Tensor:
    """[head / 2]: long wavelengths are divided by `factor`, short ones by 1, those between by a value between."""
    import torch

    waves = 2 * math.pi * base ** (torch.arange(0, head, 2, dtype=torch.float32) / head)
    factor, low, high = (float(rotary[name]) for name in ("factor", "low_freq_factor", "high_freq_factor"))
    original = float(rotary["original_max_position_embeddings"])
    share = ((original / waves - low) / (high - low)).clamp(0, 1)
    return 1 / ((1 - share) / factor + share)


class QwenLayout(RotaryLayout):
    """Qwen 2 and 3, which have llama.cpp's architectures of these names."""

    def __init__(self, architecture: str) -> None:
        self.architecture = architecture  # type: ignore[misc]

    def settings(self, config: Config) -> Settings:
        if config.get("use_sliding_window") and "sliding_attention" in (config.get("layer_types") or ()):
            raise lacks(self.architecture, "layers that attend to a window only")
        return super().settings(config)


class Phi3Layout(RotaryLayout):
    """Phi-3: long texts have other factors of frequencies than short ones, each a tensor."""

    architecture = "phi3"
    scaled_by_tensors = ("longrope",)
    partial = True

    @property
    def keys(self) -> Collection[str]:
        return {*super().keys, "attention.sliding_window"}

    def settings(self, config: Config) -> Settings:
        original, longest = config["original_max_position_embeddings"], config["max_position_embeddings"]
        settings = {**super().settings(config), ORIGINAL_LENGTH: original}
        # Zero: llama.cpp takes a Phi-3 without this entry for an older one with a window.
        settings["attention.sliding_window"] = config.get("sliding_window") or 0
        rotary = rotary_scaling(config)
        if rotary["rope_type"] == "longrope":
            usual = math.sqrt(1 + math.log(longest / original) / math.log(original)) if longest > original else 1.0
            settings[ATTENTION_FACTOR] = float(rotary.get("attention_factor") or usual)
        return settings

    def config(self, settings: Mapping[str, Any], tensors: Collection[str]) -> Settings:
        config = super().config(settings, tensors)
        rotated = settings.get("rope.dimension_count", config["head_dim"]) / config.pop("head_dim")
        config["rope_parameters"]["partial_rotary_factor"] = rotated
        original = settings.get(ORIGINAL_LENGTH, config["max_position_embeddings"])
        if LONG_FACTORS in tensors:
            own = {"rope_type": "longrope", "attention_factor": settings.get(ATTENTION_FACTOR, 1.0)}
            config["rope_parameters"] |= {**own, "original_max_position_embeddings": original}
        window = settings.get("attention.sliding_window") or None
        return {**config, "original_max_position_embeddings": original, "sliding_window": window}

    def limits(self, config: Config) -> list[str]:
        by_length = rotary_scaling(config)["rope_type"] == "longrope"
        what = "the size of its memory, not the length of a text, decides whether positions are scaled for long texts"
        return [*super().limits(config), *([what] if by_length else [])]

    def further_tensors(self, config: Config) -> dict[str, Tensor]:
        import torch

        rotary = rotary_scaling(config)
        if rotary["rope_type"] != "longrope":
            return {}
        return {name: torch.tensor(rotary[key], dtype=torch.float32) for name, key in LENGTH_FACTORS.items()}


class GemmaLayout(RotaryLayout):
    """Gemma: norms have 1 + weight as their gain."""

    architecture = "gemma"
    activations = GELU_TANH
    always_tied = True
    norm_offset = 1.0


class Gemma2Layout(GemmaLayout):
    """Gemma 2: every other layer attends to a window, and logits are capped."""

    architecture = "gemma2"
    activation_key = "hidden_activation"
    names: ClassVar[Mapping[str, str]] = {
        **RotaryLayout.names,
        "attention.sliding_window": "sliding_window",
        "attn_logit_softcapping": "attn_logit_softcapping",
        "final_logit_softcapping": "final_logit_softcapping",
    }
    period: ClassVar[int] = 2
    # The number of layers by which llama.cpp knows the size that scales attention by width / heads.
    largest: ClassVar[int] = 46

    def settings(self, config: Config) -> Settings:
        layers = range(1, config["num_hidden_layers"] + 1)
        expected = ["full_attention" if layer % self.period == 0 else "sliding_attention" for layer in layers]
        if list(config.get("layer_types") or expected) != expected:
            raise lacks(self.architecture, f"layers with windows but in periods of {self.period}")
        settings = super().settings(config)
        if None in settings.values():
            raise lacks(self.architecture, "logits without a cap")
        if config["query_pre_attn_scalar"] != self._attention_scale(config):
            raise lacks(self.architecture, f"attention scaled by {config['query_pre_attn_scalar']}")
        return settings

    def _attention_scale(self, config: Config) -> int:
        if config["num_hidden_layers"] == self.largest:
            return int(config["hidden_size"] // config["num_attention_heads"])
        return _head_size(config)

    def config(self, settings: Mapping[str, Any], tensors: Collection[str]) -> Settings:
        config = super().config(settings, tensors)
        return {**config, "query_pre_attn_scalar": self._attention_scale(config)}

    def limits(self, config: Config) -> list[str]:
        return []


class Gemma3Layout(Gemma2Layout):
    """Gemma 3: five layers of six attend to a window, with another base of rotary positions."""

    architecture = "gemma3"
    always_tied = False
    names: ClassVar[Mapping[str, str]] = {**RotaryLayout.names, "attention.sliding_window": "sliding_window"}
    period = 6
    largest = 62

    @property
    def keys(self) -> Collection[str]:
        return {*super().keys, "rope.freq_base_swa"}

    def settings(self, config: Config) -> Settings:
        if config.get("attn_logit_softcapping") or config.get("final_logit_softcapping"):
            raise lacks(self.architecture, "capped logits")
        if config.get("use_bidirectional_attention"):
            raise lacks(self.architecture, "attention to later tokens")
        local = config["rope_parameters"]["sliding_attention"]
        if (local.get("rope_type") or "default") != "default":
            raise lacks(self.architecture, "scaled positions in layers with windows")
        return {**super().settings(config), "rope.freq_base_swa": float(local["rope_theta"])}

    def _rotary(self, config: Config) -> Mapping[str, Any]:
        return rotary_scaling({"rope_parameters": config["rope_parameters"]["full_attention"]})

    def config(self, settings: Mapping[str, Any], tensors: Collection[str]) -> Settings:
        config = super().config(settings, tensors)
        local = {"rope_type": "default", "rope_theta": settings.get("rope.freq_base_swa", 10000.0)}
        return {**config, "rope_parameters": {"full_attention": config["rope_parameters"], "sliding_attention": local}}


class Gpt2Layout(GgufLayout):
    """GPT-2, whose projections are [inputs, outputs] in transformers."""

    architecture = "gpt2"
    transposed = ("c_attn.weight", "c_proj.weight", "c_fc.weight")
    activations = ("gelu_new", "gelu_pytorch_tanh", "gelu_fast")
    activation_key = "activation_function"

    @property
    def keys(self) -> Collection[str]:
        return {*super().keys, "feed_forward_length"}

    names: ClassVar[Mapping[str, str]] = {
        "block_count": "n_layer",
        "context_length": "n_positions",
        "embedding_length": "n_embd",
        "attention.head_count": "n_head",
        "attention.layer_norm_epsilon": "layer_norm_epsilon",
        "vocab_size": "vocab_size",
    }

    def settings(self, config: Config) -> Settings:
        if config.get("scale_attn_by_inverse_layer_idx") or not config.get("scale_attn_weights", True):
            raise lacks(self.architecture, "attention scaled as in this model")
        inner = config.get("n_inner") or 4 * config["n_embd"]
        return {**super().settings(config), "feed_forward_length": inner}

    def config(self, settings: Mapping[str, Any], tensors: Collection[str]) -> Settings:
        return {**super().config(settings, tensors), "n_inner": settings["feed_forward_length"]}


def _head_size(config: Config) -> int:
    return int(config.get("head_dim") or config["hidden_size"] // config["num_attention_heads"])


def _permuted_heads(name: str, config: Config) -> int | None:
    """The number of heads of a Llama's queries or keys; None for other tensors."""
    heads: int = config["num_attention_heads"]
    of_keys: int = config.get("num_key_value_heads") or heads
    return {"q_proj": heads, "k_proj": of_keys}.get(name.split(".")[-2])
