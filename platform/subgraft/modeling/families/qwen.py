"""Qwen2, Qwen2.5 (Yang et al., 2024) and Qwen3 (2025): Llama's layers except for biases, and norms of queries and keys.

Texts have no beginning token, only the previous text's end token.
"""

from __future__ import annotations

from subgraft.modeling.families.llama import LlamaLike


class Qwen2(LlamaLike):
    """Queries, keys and values always have a bias."""

    model_type = "qwen2"
    transformers_class = "Qwen2ForCausalLM"
    ctranslate2_loader = "Qwen2Loader"
    qkv_bias = True


class Qwen3(LlamaLike):
    """Each head's queries and keys are normalised; biases exist only if config.json says so."""

    model_type = "qwen3"
    transformers_class = "Qwen3ForCausalLM"
    ctranslate2_loader = "Qwen3Loader"
    qkv_bias = out_bias = "attention_bias"
    head_norms = True
    head_size = 128
    exports_wide_heads = True
