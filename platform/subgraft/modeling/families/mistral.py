"""Mistral (Jiang et al., 2023): Llama's layers with grouped queries, whose attention may be limited to a window."""

from __future__ import annotations

from subgraft.modeling.families.llama import LlamaLike


class Mistral(LlamaLike):
    """Taken from checkpoints only."""

    model_type = "mistral"
    transformers_class = "MistralForCausalLM"
    ctranslate2_loader = "MistralLoader"
