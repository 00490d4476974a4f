"""The likelihood of references, token by token, against the model's own logits."""

from __future__ import annotations

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from new_vocabularies import LANGUAGES, TEXTS, upstream
from subgraft.modeling.families.encoder_only import BERT2BERT
from subgraft.training.objectives.compute import logit_slices
from subgraft.training.objectives.compute.cross_entropy import linear_log_likelihood
from subgraft.training.objectives.compute.seq2seq import collate
from subgraft.training.objectives.compute.translation import Translation, reference_nats


@pytest.mark.parametrize("cap", [None, 1.5])
@pytest.mark.parametrize("with_members", [False, True])
@pytest.mark.parametrize("with_bias", [False, True])
def test_values_and_gradients_equal_those_of_whole_logits(
    monkeypatch: pytest.MonkeyPatch, with_bias: bool, with_members: bool, cap: float | None
) -> None:
    monkeypatch.setattr(logit_slices, "SLICE_ELEMENTS", 200)  # many slices, the last one shorter
    torch.manual_seed(0)
    hidden = torch.randn(37, 8, dtype=torch.float64, requires_grad=True)
    weight = torch.randn(29, 8, dtype=torch.float64, requires_grad=True)
    bias = torch.randn(29, dtype=torch.float64, requires_grad=True) if with_bias else None
    labels, members = torch.randint(0, 29, (37,)), torch.arange(29) % 3 == 0
    chosen, together = linear_log_likelihood(hidden, weight, bias, labels, members if with_members else None, cap)

    logits = F.linear(hidden, weight, bias)
    scores = (logits if cap is None else cap * torch.tanh(logits / cap)).log_softmax(dim=1)
    expected = scores[torch.arange(37), labels]
    mass = scores.exp()[:, members].sum(dim=1).log() if with_members else torch.zeros(37, dtype=torch.float64)
    torch.testing.assert_close(chosen, expected)
    torch.testing.assert_close(together, mass)

    def value(one: torch.Tensor, other: torch.Tensor) -> torch.Tensor:
        return (torch.linspace(-1, 2, 37, dtype=torch.float64) * one).sum() + other.square().sum()

    inputs = [tensor for tensor in (hidden, weight, bias) if tensor is not None]
    right = torch.autograd.grad(value(expected, mass), inputs)
    torch.testing.assert_close(torch.autograd.grad(value(chosen, together), inputs), right)


def test_a_frozen_projection_gets_no_gradient() -> None:
    hidden, weight = torch.randn(5, 8, requires_grad=True), torch.randn(11, 8)
    linear_log_likelihood(hidden, weight, None, torch.randint(0, 11, (5,)))[0].sum().backward()
    assert hidden.grad is not None and weight.grad is None


def test_products_follow_autocast_and_the_softmax_stays_exact() -> None:
    torch.manual_seed(0)
    hidden, weight, labels = torch.randn(64, 32), torch.randn(100, 32), torch.randint(0, 100, (64,))
    exact, _ = linear_log_likelihood(hidden, weight, None, labels)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        likelihoods, _ = linear_log_likelihood(hidden, weight, None, labels)
    assert likelihoods.dtype == torch.float32
    torch.testing.assert_close(likelihoods, exact, rtol=2e-2, atol=0.1)
    assert not torch.equal(likelihoods, exact)


@pytest.mark.parametrize("family", ["marian", "mbart", BERT2BERT])
def test_nats_are_those_of_the_models_logits(family: str) -> None:
    bundle, pairs = upstream(family), TEXTS[:7]
    nats = dict(reference_nats(bundle, pairs, LANGUAGES))
    form = bundle.sequence_format(LANGUAGES)
    examples = Translation(pairs, bundle.encoder, bundle.decoder, form, bundle.max_positions)
    whole = [place for place in range(7) if examples.whole_targets[place]]
    assert sorted(nats) == whole and whole
    for place in whole:
        batch = collate([examples.example(place, 0)], *bundle.padding)
        with torch.no_grad():
            logits = bundle.model(
                input_ids=batch.input_ids,
                attention_mask=batch.attention_mask,
                decoder_input_ids=batch.decoder_input_ids,
            ).logits
        expected = torch.nn.functional.cross_entropy(logits[0], batch.labels[0], reduction="none")
        np.testing.assert_allclose(nats[place], expected.numpy(), rtol=1e-3, atol=1e-4)


def test_references_beyond_the_models_positions_are_left_out() -> None:
    bundle = upstream("marian")
    source, target = TEXTS[0]
    short = "dank."
    pairs = [(source, short), (source, " ".join([target] * 9)), (" ".join([source] * 9), short)]
    assert len(bundle.decoder.encode(pairs[1][1])) > bundle.max_positions
    nats = dict(reference_nats(bundle, pairs, LANGUAGES))
    assert sorted(nats) == [0, 2], "a source that is too long is cut, as it is for generation"
    assert len(nats[0]) == len(bundle.decoder.encode(short)) + 1
