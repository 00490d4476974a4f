from __future__ import annotations

import math

import pytest
import torch
import torch.nn.functional as F

from subgraft.training.objectives.compute import logit_slices
from subgraft.training.objectives.compute.cross_entropy import linear_cross_entropy


@pytest.mark.parametrize("cap", [None, 1.5])
@pytest.mark.parametrize("smoothing", [0.0, 0.1])
@pytest.mark.parametrize("with_bias", [False, True])
def test_loss_and_gradients_equal_cross_entropy(
    monkeypatch: pytest.MonkeyPatch, smoothing: float, with_bias: bool, cap: float | None
) -> None:
    monkeypatch.setattr(logit_slices, "SLICE_ELEMENTS", 200)  # many slices, the last one shorter
    torch.manual_seed(0)
    hidden = torch.randn(37, 8, dtype=torch.float64, requires_grad=True)
    weight = torch.randn(29, 8, dtype=torch.float64, requires_grad=True)
    bias = torch.randn(29, dtype=torch.float64, requires_grad=True) if with_bias else None
    labels = torch.randint(0, 29, (37,))

    offsets = None if cap is None else torch.linspace(-1, 1, 29)
    ours = 3.0 * linear_cross_entropy(hidden, weight, bias, labels, smoothing, cap, offsets)
    logits = F.linear(hidden, weight, bias)
    if cap is not None and offsets is not None:
        logits = cap * torch.tanh(logits / cap) + offsets
    expected = 3.0 * F.cross_entropy(logits, labels, reduction="sum", label_smoothing=smoothing)
    assert ours.item() == pytest.approx(expected.item(), rel=1e-5)
    inputs = [tensor for tensor in (hidden, weight, bias) if tensor is not None]
    for gradient, right in zip(torch.autograd.grad(ours, inputs), torch.autograd.grad(expected, inputs), strict=True):
        torch.testing.assert_close(gradient.double(), right, rtol=1e-4, atol=1e-5)


def test_a_frozen_projection_gets_no_gradient() -> None:
    hidden, weight = torch.randn(5, 8, requires_grad=True), torch.randn(11, 8)
    linear_cross_entropy(hidden, weight, None, torch.randint(0, 11, (5,))).backward()
    assert hidden.grad is not None and weight.grad is None


def test_products_follow_autocast_and_the_softmax_stays_exact() -> None:
    torch.manual_seed(0)
    hidden, weight, labels = torch.randn(64, 32), torch.randn(100, 32), torch.randint(0, 100, (64,))
    exact = F.cross_entropy(hidden @ weight.T, labels, reduction="sum")
    with torch.autocast("cpu", dtype=torch.bfloat16):
        loss = linear_cross_entropy(hidden, weight, None, labels)
    assert loss.dtype == torch.float32
    assert loss.item() == pytest.approx(exact.item(), rel=1e-2)
    assert loss.item() != exact.item()


def test_slices_grow_with_the_width_where_the_vocabulary_is_large() -> None:
    assert logit_slices.slice_rows(8_000, 256) == logit_slices.SLICE_ELEMENTS // 8_000
    assert logit_slices.slice_rows(250_027, 1024) == 256


def test_slices_of_a_loss_are_as_they_were_below_a_large_vocabulary_and_never_small_above() -> None:
    for vocabulary, width in ((8_000, 256), (64_000, 512), (99_999, 64)):
        assert logit_slices.loss_slice_rows(vocabulary, width) == logit_slices.slice_rows(vocabulary, width)
    assert logit_slices.loss_slice_rows(100_000, 64) == logit_slices.loss_slice_rows(250_027, 256) == 256
    assert logit_slices.loss_slice_rows(250_027, 1024) == 1024


def test_slices_on_a_gpu_are_large_and_bounded() -> None:
    for vocabulary, width in ((8_000, 256), (49_152, 576), (128_256, 2048), (250_027, 1024)):
        rows = logit_slices.loss_slice_rows(vocabulary, width, on_gpu=True)
        assert rows >= max(width, logit_slices.loss_slice_rows(vocabulary, width))
        assert rows * vocabulary <= max(logit_slices.GPU_SLICE_ELEMENTS, width * vocabulary)


# Of numbers in single precision.
ROUNDING = 2.0**-24


@pytest.mark.parametrize("tokens", [0, 100, 600])
def test_slices_of_a_large_vocabulary_give_what_whole_logits_give(tokens: int) -> None:
    """Held against double precision.

    n products rounded and summed are off by √n roundings of the sum of their magnitudes (Higham and Mary, 2019, A new
    approach to probabilistic rounding error analysis), and a probability by as many roundings as its logarithm.
    """
    torch.manual_seed(0)
    hidden = torch.randn(tokens, 8, requires_grad=True)
    weight = torch.randn(logit_slices.LARGE_VOCABULARY, 8).mul_(0.2).requires_grad_()
    labels = torch.randint(0, len(weight), (tokens,))
    ours = linear_cross_entropy(hidden, weight, None, labels, 0.1)
    exact = hidden.detach().double(), weight.detach().double()
    logits = (exact[0] @ exact[1].T).requires_grad_()
    whole = F.cross_entropy(logits, labels, reduction="sum", label_smoothing=0.1)
    assert ours.item() == pytest.approx(whole.item(), rel=1e-5)
    (gradient,) = torch.autograd.grad(whole, logits)
    logarithm = math.log(len(weight))
    for gradient_of_input, left, right in zip(
        torch.autograd.grad(ours, (hidden, weight)), (gradient, gradient.T), (exact[1], exact[0]), strict=True
    ):
        allowed = ROUNDING * (len(right) ** 0.5 + logarithm) * float((left.abs() @ right.abs()).norm())
        assert float((gradient_of_input - left @ right).norm()) <= allowed
