from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn
from transformers import BertForMaskedLM, GPT2Model, MarianMTModel, MBartForConditionalGeneration, PreTrainedModel

from subgraft.modeling.sides import RATES, set_hidden_dropout, side_names, without_dropout
from toys import gpt2, marian, mbart


@pytest.mark.parametrize("build", [marian, mbart, gpt2])
def test_training_mode_computes_what_evaluation_mode_does(build: Callable[[], PreTrainedModel]) -> None:
    model = build()
    ids = torch.arange(5, 17).reshape(2, 6)
    inputs = {"input_ids": ids} | ({"decoder_input_ids": ids} if "encoder" in side_names(model) else {})
    expected = model(**inputs).logits
    assert not torch.equal(model.train()(**inputs).logits, expected), "the toys have dropout"
    assert torch.equal(without_dropout(model).train()(**inputs).logits, expected)


def rates(model: nn.Module) -> list[tuple[str, float]]:
    """Every rate in a model, by its place."""
    result = []
    for place, module in model.named_modules():
        numbers = {name: getattr(module, name) for name in RATES if isinstance(getattr(module, name, None), float)}
        result += [(f"{place}.{name}", number) for name, number in numbers.items()]
        result += [(place, module.p)] if isinstance(module, nn.Dropout) else []
    return result


@pytest.mark.parametrize("kind", [MarianMTModel, MBartForConditionalGeneration, BertForMaskedLM, GPT2Model])
def test_hidden_dropout_is_set_to_what_a_model_built_with_it_has(kind: type[PreTrainedModel]) -> None:
    """And attention's dropout, which begins otherwise, stays."""

    def built(rate: float) -> PreTrainedModel:
        sizes = {"d_model": 16, "hidden_size": 16, "num_hidden_layers": 2, "encoder_layers": 2, "decoder_layers": 2}
        heads = {"num_attention_heads": 2, "encoder_attention_heads": 2, "decoder_attention_heads": 2, "n_head": 2}
        hidden = dict.fromkeys(("dropout", "hidden_dropout_prob", "resid_pdrop", "embd_pdrop", "dropout_rate"), rate)
        attention = dict.fromkeys(("attention_dropout", "attention_probs_dropout_prob", "attn_pdrop"), 0.3)
        own = {"n_embd": 16, "n_layer": 2} if kind is GPT2Model else sizes
        tokens = {"pad_token_id": 0, "eos_token_id": 1, "bos_token_id": 1, "decoder_start_token_id": 0}
        config_class: Any = kind.config_class
        config = config_class(vocab_size=20, **own, **heads, **hidden, **attention, **tokens)
        return kind(config)

    model = built(0.1)
    before = rates(model)
    set_hidden_dropout(model, 0.05)
    assert rates(model) == rates(built(0.05)) != before
