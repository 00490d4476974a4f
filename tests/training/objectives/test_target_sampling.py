"""Target sampling: losses over candidates compared with those over the whole vocabulary."""

from __future__ import annotations

import math
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from transformers import PreTrainedModel

from subgraft.config.training import (
    NearestTargets,
    NoiseContrastive,
    TargetSamplingSettings,
    UniformTargets,
)
from subgraft.modeling.sides import side
from subgraft.training.objectives.compute import logit_slices
from subgraft.training.objectives.compute.denoising import Denoising
from subgraft.training.objectives.compute.embedding_view import IGNORED
from subgraft.training.objectives.compute.interface import TokenLoss
from subgraft.training.objectives.compute.masked import MaskedSentences
from subgraft.training.objectives.compute.mixture import MixedBatch, MixedLoss
from subgraft.training.objectives.compute.seq2seq import Seq2SeqData, Seq2SeqLoss
from subgraft.training.objectives.compute.single_stack import StackLoss
from subgraft.training.objectives.compute.target_sampling import (
    NearestTokens,
    SampledBatch,
    SampledLoss,
    linear_noise_contrast,
    nearest,
    target_sampling,
)
from subgraft.training.objectives.denoising import DenoisingSettings
from subgraft.training.objectives.masked import MaskedSettings
from toys import bert, cased_tokenizer, english, german, mbart, mbart_blocks, multilingual_tokenizer


class Alone:
    """The only worker of a training."""

    rank, world, device = 0, 1, torch.device("cpu")

    def gathered_parameters(self) -> AbstractContextManager[None]:
        return nullcontext()


def _masked() -> tuple[PreTrainedModel, TokenLoss, Any]:
    sentences = MaskedSentences(english(60) + german(60), cased_tokenizer(), MaskedSettings(), 40, seed=1)
    model = bert()
    return model, StackLoss(model), sentences


def _denoising() -> tuple[PreTrainedModel, TokenLoss, Any]:
    tokenizer, settings = multilingual_tokenizer(), DenoisingSettings()
    blocks = Denoising(mbart_blocks(german(60), tokenizer, "de", 24), settings, seed=1)
    model, padding = mbart(), tokenizer.special["pad"]
    return model, Seq2SeqLoss(model), Seq2SeqData(blocks, padding, padding)


MODELS = {"masked": _masked, "denoising": _denoising}


def _sampled(
    settings: TargetSamplingSettings, model: PreTrainedModel, batches: Sequence[Any], step: int = 0
) -> list[SampledBatch]:
    sampling = target_sampling(settings, model, seed=5)
    if sampling.every is not None:
        sampling.look_ahead(batches, Alone())
    return sampling.prepare(batches, step, Alone())


def _gradients(model: PreTrainedModel, loss: torch.Tensor) -> dict[str, torch.Tensor]:
    model.zero_grad()
    torch.autograd.backward(loss)
    return {name: each.grad.clone() for name, each in model.named_parameters() if each.grad is not None}


@pytest.mark.parametrize("kind", MODELS)
@pytest.mark.parametrize("smoothing", [0.0, 0.1])
@pytest.mark.parametrize(
    "settings",
    [
        NearestTargets(neighbours=10**6),
        NearestTargets(neighbours=3, drawn=10**6),
        UniformTargets(drawn=10**6),
    ],
)
def test_all_tokens_as_candidates_give_the_full_loss_and_gradient(
    kind: str, smoothing: float, settings: TargetSamplingSettings
) -> None:
    model, loss, data = MODELS[kind]()
    loss.label_smoothing = smoothing
    batch = data.batch(np.arange(8), 0)
    (sampled,) = _sampled(settings, model, [batch])
    assert sampled.candidates.tolist() == list(range(side(model, "decoder").input.num_embeddings))
    over_candidates, expected = (SampledLoss(loss)(each)["loss"] for each in (sampled, batch))
    torch.testing.assert_close(over_candidates, expected, rtol=1e-6, atol=0.0)
    ours, full = _gradients(model, over_candidates), _gradients(model, expected)
    assert ours.keys() == full.keys()
    for name, gradient in full.items():
        torch.testing.assert_close(ours[name], gradient, rtol=1e-5, atol=1e-6, msg=name)


@pytest.mark.parametrize("kind", MODELS)
@pytest.mark.parametrize("settings", [NearestTargets(neighbours=k) for k in (1, 5, 20)] + [UniformTargets(drawn=30)])
def test_fewer_candidates_give_a_lower_bound_of_the_loss(kind: str, settings: TargetSamplingSettings) -> None:
    model, loss, data = MODELS[kind]()
    batch = data.batch(np.arange(4), 0)
    (sampled,) = _sampled(settings, model, [batch])
    assert len(sampled.candidates) < side(model, "decoder").input.num_embeddings
    with torch.no_grad():
        assert 0 < float(SampledLoss(loss)(sampled)["loss"]) < float(loss(batch)["loss"])


@pytest.mark.parametrize("settings", [NearestTargets(neighbours=3), UniformTargets(drawn=3), NoiseContrastive(drawn=3)])
def test_all_targets_are_candidates_and_what_competes_is_gone_by_the_table(settings: TargetSamplingSettings) -> None:
    model, _, data = _masked()
    batches = [data.batch(np.arange(start, start + 6), 0) for start in (0, 6, 12)]
    table = side(model, "decoder").input.weight
    for batch, sampled in zip(batches, _sampled(settings, model, batches), strict=True):
        targets = set(batch.labels[batch.labels != IGNORED].tolist())
        candidates = sampled.candidates.tolist()
        assert targets <= set(candidates) and candidates == sorted(set(candidates))
        assert sampled.counts == batch.counts and sampled.shape == batch.shape
        if isinstance(settings, NearestTargets):
            scores = table @ table.T
            near = {i for target in targets for i in scores[target].argsort(descending=True)[:3].tolist()}
            assert set(candidates) == targets | near
        else:
            assert len(candidates) <= len(targets) + 3


def test_tokens_drawn_in_addition_to_the_nearest_represent_all_others() -> None:
    """Weights count every token once; the softmax's denominator is the whole one in expectation."""
    model, _, data = _masked()
    batch, settings = data.batch(np.arange(6), 0), NearestTargets(neighbours=3, drawn=30)
    decoder = side(model, "decoder")
    assert decoder.output is not None
    torch.manual_seed(0)
    scores = (decoder.output.weight @ torch.randn(decoder.output.in_features)).detach().double()
    denominators = []
    for step in range(400):
        (sampled,) = _sampled(settings, model, [batch], step)
        assert sampled.weights is not None
        assert sampled.weights.exp().sum().item() == pytest.approx(len(scores), rel=1e-5)
        assert (sampled.weights > 0).sum() == 30
        assert set(batch.labels[batch.labels >= 0].tolist()) <= set(sampled.candidates[sampled.weights == 0].tolist())
        denominators.append((scores[sampled.candidates] + sampled.weights).exp().sum().item())
    error = np.std(denominators) / math.sqrt(len(denominators))
    assert abs(np.mean(denominators) - scores.exp().sum().item()) < 4 * error
    assert error < 0.01 * np.mean(denominators)


def test_what_is_drawn_is_a_function_of_seed_step_and_micro_batch() -> None:
    model, _, data = _masked()
    batches = [data.batch(np.arange(6), 0)] * 2
    settings = UniformTargets(drawn=20)
    one, two = (_sampled(settings, model, batches, step) for step in (3, 3))
    assert [each.candidates.tolist() for each in one] == [each.candidates.tolist() for each in two]
    other = _sampled(settings, model, batches, step=4)
    drawn = {tuple(each.candidates.tolist()) for each in (*one, *other)}
    assert len(drawn) == 4


def test_neighbours_are_those_of_an_exhaustive_search(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(logit_slices, "SLICE_ELEMENTS", 200)  # blocks of four tokens
    torch.manual_seed(0)
    table, tokens = torch.randn(50, 16), torch.tensor([3, 4, 7, 11, 19, 20, 28, 31, 49])
    neighbours = nearest(table, tokens, 6)
    for token, near in zip(tokens.tolist(), neighbours.tolist(), strict=True):
        products = [float(table[token] @ row) for row in table]
        assert sorted(near) == sorted(sorted(range(50), key=lambda i: -products[i])[:6])
    index = NearestTokens.search(table, tokens, 6, Alone())
    marks = torch.zeros(50, dtype=torch.bool)
    marks[[7, 49]] = True
    assert set(index.neighbours_of(marks).nonzero().flatten().tolist()) == set(neighbours[[2, 8]].flatten().tolist())
    marks[8] = True
    with pytest.raises(ValueError, match="were not searched"):
        index.neighbours_of(marks)


def test_noise_contrast_is_the_logistic_regression_it_is_named_for() -> None:
    torch.manual_seed(0)
    hidden = torch.randn(37, 8, dtype=torch.float64, requires_grad=True)
    weight = torch.randn(29, 8, dtype=torch.float64, requires_grad=True)
    bias = torch.randn(29, dtype=torch.float64, requires_grad=True)
    labels, noise = torch.randint(0, 29, (37,)), torch.rand(29) < 0.6
    ours = 3.0 * linear_noise_contrast(hidden, weight, bias, labels, noise)
    odds = F.linear(hidden, weight, bias) - math.log(int(noise.sum()))
    gold = F.logsigmoid(odds[torch.arange(37), labels]).sum()
    expected = -3.0 * (gold + F.logsigmoid(-odds[:, noise]).sum())
    assert ours.item() == pytest.approx(expected.item(), rel=1e-5)
    inputs = (hidden, weight, bias)
    for gradient, right in zip(torch.autograd.grad(ours, inputs), torch.autograd.grad(expected, inputs), strict=True):
        torch.testing.assert_close(gradient.double(), right, rtol=1e-4, atol=1e-5)


def test_only_what_was_drawn_is_noise() -> None:
    model, loss, data = _masked()
    batch = data.batch(np.arange(6), 0)
    (sampled,) = _sampled(NoiseContrastive(drawn=12), model, [batch])
    assert sampled.noise is not None and int(sampled.noise.sum()) == 12
    assert SampledLoss(loss)(sampled)["loss"].item() > 0


def test_a_mixture_samples_the_targets_of_whichever_objective_a_batch_is_of() -> None:
    model, loss, data = _denoising()
    mixed = MixedLoss(model, {"denoising": loss})
    batch = MixedBatch("denoising", data.batch(np.arange(4), 0))
    (sampled,) = _sampled(NearestTargets(neighbours=4), model, [batch])
    (alone,) = _sampled(NearestTargets(neighbours=4), model, [batch.batch])
    with torch.no_grad():
        losses = SampledLoss(mixed)(sampled)
        assert losses == {"denoising_loss": SampledLoss(loss)(alone)["loss"]}


def test_parameters_keep_their_names() -> None:
    """Checkpoints are of parameters by name."""
    _, loss, _ = _masked()
    assert [name for name, _ in SampledLoss(loss).named_parameters()] == [name for name, _ in loss.named_parameters()]
