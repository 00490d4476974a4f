"""Pseudo-self attention against the equation written out."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn.functional import gelu, layer_norm
from transformers import GPT2Config, GPT2LMHeadModel

from sourced import FEATURES, language_model, settings, some_features
from subgraft.contrib.conditioning.conditional_model import ConditionalModel, conditional_config, conditioned
from subgraft.modeling.conditioning.variants.variant import Memory


def _written_out(model: Any, ids: Tensor, source: Tensor, mask: Tensor) -> Tensor:
    """Top states of GPT-2 with softmax((Y W_q) [X U_k; Y W_k]^T / sqrt(d_h)) [X U_v; Y W_v], of one example."""
    gpt = model.language_model.base_model
    size = gpt.config.n_embd // gpt.config.n_head
    rows, length = source[mask.bool()], len(ids)
    visible = torch.cat([torch.ones(length, len(rows)), torch.ones(length, length).tril()], 1).bool()
    hidden = gpt.wte.weight[ids] + gpt.wpe.weight[:length]
    for number, block in enumerate(gpt.h):
        u = model.variant.projections[number]
        own = _normed(hidden, block.ln_1) @ block.attn.c_attn.weight + block.attn.c_attn.bias
        query, key, value = own.split(gpt.config.n_embd, -1)
        source_key, source_value = (rows @ u.weight.T + u.bias).split(gpt.config.n_embd, -1)
        keys, values = torch.cat([source_key, key]), torch.cat([source_value, value])
        attended = []
        for head in range(gpt.config.n_head):
            part = slice(head * size, (head + 1) * size)
            scores = (query[:, part] @ keys[:, part].T / size**0.5).masked_fill(~visible, -torch.inf)
            attended.append(scores.softmax(-1) @ values[:, part])
        hidden = hidden + torch.cat(attended, -1) @ block.attn.c_proj.weight + block.attn.c_proj.bias
        inner = _normed(hidden, block.ln_2) @ block.mlp.c_fc.weight + block.mlp.c_fc.bias
        hidden = hidden + gelu(inner, approximate="tanh") @ block.mlp.c_proj.weight + block.mlp.c_proj.bias
    return _normed(hidden, gpt.ln_f)


def _normed(hidden: Tensor, norm: torch.nn.LayerNorm) -> Tensor:
    return layer_norm(hidden, hidden.shape[-1:], norm.weight, norm.bias, norm.eps)


@pytest.mark.parametrize("attention", ["eager", "sdpa"])
@pytest.mark.parametrize("training", [False, True])
def test_a_cache_filled_beforehand_is_the_equation(attention: str, training: bool) -> None:
    model = conditioned(language_model(), settings("pseudo-self"), seed=1)
    model.set_attn_implementation(attention)
    model.train(training)  # without dropout, of which this model has none
    features, mask = some_features()
    ids = torch.randint(3, 50, (len(features), 7), generator=torch.Generator().manual_seed(2))
    exact = conditioned(language_model(), settings("pseudo-self"), seed=1).double()
    with torch.no_grad():
        states = model.states(Memory(model.source.states(features, mask), mask), input_ids=ids)
        memory = exact.source.states(features.double(), mask)
        expected = torch.stack([_written_out(exact, *of) for of in zip(ids, memory, mask, strict=True)])
    assert expected.dtype == torch.float64 and expected.std() > 0.1
    assert (states - expected).abs().max() < 1e-6 * max(1.0, float(expected.abs().max()))


def test_gradients_reach_u_the_source_and_the_table() -> None:
    model = conditioned(language_model(), settings("pseudo-self"), seed=1).train()
    features, mask = some_features()
    ids = torch.randint(3, 50, (len(features), 5))
    model(input_ids=features, attention_mask=mask, decoder_input_ids=ids).logits.logsumexp(-1).sum().backward()
    for name, parameter in model.named_parameters():
        assert parameter.grad is not None and parameter.grad.abs().sum() > 0, name


@pytest.mark.parametrize(
    ("layers", "heads", "width", "variant", "count"),
    [
        (12, 12, 768, "pseudo-self", 14_174_208),
        (24, 16, 1024, "pseudo-self", 50_380_800),
        (12, 12, 768, "cross-attention", 28_366_848),
        # The norm of queries is one that is there: 12 * 2 * 768 fewer.
        (12, 12, 768, "context-attention", 28_348_416),
    ],
)
def test_new_parameters_at_the_sizes_of_the_paper(
    layers: int, heads: int, width: int, variant: str, count: int
) -> None:
    config = GPT2Config(n_layer=layers, n_head=heads, n_embd=width)
    with torch.device("meta"):
        alone = GPT2LMHeadModel(config)
        model = ConditionalModel(conditional_config(config, settings(variant)))
    encoder = (FEATURES + 1) * width + 2 * width
    assert model.num_parameters() - alone.num_parameters() == count + encoder
