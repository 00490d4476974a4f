"""Gemma (2024), Gemma 2 (2024) and Gemma 3 (2025) of Google DeepMind: Llama's layers with wide heads.

Embeddings are scaled by the root of the width, and tied to the output projection. Gemma 2 and 3 also normalise the
output of each part of a layer; some of their layers attend to a window only.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from subgraft.base.errors import UserError
from subgraft.modeling.families.family import ITS_VOCABULARY
from subgraft.modeling.families.llama import LlamaLike
from subgraft.modeling.families.model_parts import Config


class Gemma(LlamaLike):
    """Taken from checkpoints only."""

    model_type = "gemma"
    transformers_class = "GemmaForCausalLM"
    ctranslate2_loader: ClassVar[str | None] = "GemmaLoader"
    tied = True
    qkv_bias = out_bias = "attention_bias"
    head_size = 256
    exports_wide_heads = True

    def check(self, config: Config) -> None:
        """Raises UserError for a model whose logits are capped: losses here are of logits without a cap."""
        if config.get("final_logit_softcapping"):
            raise UserError(
                f"this {self.model_type} model caps its logits (final_logit_softcapping), which is not supported",
                hint=f"Gemma and Gemma 3 have no cap. {ITS_VOCABULARY}",
            )


class Gemma2(Gemma):
    """Published Gemma 2 models cap their logits; models trained without a cap are supported."""

    model_type = "gemma2"
    transformers_class = "Gemma2ForCausalLM"
    ctranslate2_loader = None
    norms = 4


class Gemma3(Gemma):
    """The language model of Gemma 3, which the sizes 270M and 1B are as published."""

    model_type = "gemma3_text"
    transformers_class = "Gemma3ForCausalLM"
    ctranslate2_loader = "Gemma3Loader"
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
