"""Small language models with a source, and sources for them, for tests of conditioning."""

from __future__ import annotations

from typing import Any, TypeVar

import torch
from torch import Tensor, nn
from transformers import GPT2Config, GPT2LMHeadModel, LlamaConfig, LlamaForCausalLM, PreTrainedModel

from subgraft.modeling.conditioning.settings import ConditioningSettings

Model = TypeVar("Model", bound=nn.Module)
FEATURES = 5
VOCABULARY = 50
_IDS: dict[str, Any] = {"vocab_size": VOCABULARY, "bos_token_id": 0, "eos_token_id": 1, "pad_token_id": 2}


def language_model(family: str = "gpt2") -> PreTrainedModel:
    """Without dropout, and with weights large enough that what it says depends on what it reads."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        if family == "gpt2":
            still: dict[str, Any] = {"resid_pdrop": 0.0, "embd_pdrop": 0.0, "attn_pdrop": 0.0}
            model: PreTrainedModel = GPT2LMHeadModel(
                GPT2Config(n_embd=16, n_layer=2, n_head=4, n_positions=24, **still, **_IDS)
            )
        else:
            sizes: dict[str, Any] = {"hidden_size": 16, "intermediate_size": 24, "num_hidden_layers": 2}
            model = LlamaForCausalLM(
                LlamaConfig(num_attention_heads=4, num_key_value_heads=2, max_position_embeddings=24, **sizes, **_IDS)
            )
        with torch.no_grad():
            for parameter in model.parameters():
                if parameter.ndim > 1:
                    parameter.mul_(8)
    model.train(False)
    return model


def trained_a_little(model: Model) -> Model:
    """Set zero-initialised parameters, such as biases and a fusion's scores; frozen ones stay unchanged."""
    with torch.no_grad(), torch.random.fork_rng(devices=[]):
        torch.manual_seed(3)
        for parameter in model.parameters():
            if parameter.requires_grad:
                parameter.add_(torch.randn_like(parameter) * 0.2)
    return model


def settings(variant: str, **source: Any) -> ConditioningSettings:
    return ConditioningSettings.model_validate(
        {
            "variant": variant,
            "source": source or {"kind": "features", "features": FEATURES},
            "decoder": {"d_model": 8, "layers": 1, "attention_heads": 2, "dropout": 0.0},
        }
    )


def some_features() -> tuple[Tensor, Tensor]:
    """Three examples [3, 4, 5], of four, two and three rows, and their mask."""
    features = torch.randn(3, 4, FEATURES, generator=torch.Generator().manual_seed(1))
    return features, torch.tensor([[1, 1, 1, 1], [1, 1, 0, 0], [1, 1, 1, 0]])
