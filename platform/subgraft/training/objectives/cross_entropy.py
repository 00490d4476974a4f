"""Output projection and label-smoothed cross entropy as one operation, one slice of the tokens at a time.

The logits of a batch are its largest tensor by far ([N, V]: a gigabyte for 4,000 tokens and 64,000 subwords). Only one
slice of them exists at any time, because the gradient of a slice is computed together with its loss.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, TypeAlias

import torch
from torch import Tensor

from subgraft.training.objectives.logit_slices import LARGE_VOCABULARY, loss_slice_rows

# The summed loss of a slice of logits [n, V] by labels [n], and its gradient with respect to the logits, which it may
# compute in their place.
Criterion: TypeAlias = Callable[[Tensor, Tensor], tuple[Tensor, Tensor]]


def linear_cross_entropy(
    hidden: Tensor, weight: Tensor, bias: Tensor | None, labels: Tensor, label_smoothing: float = 0.0
) -> Tensor:
    """Cross entropy of softmax(hidden @ weight.T + bias), summed over N tokens, in nats.

    hidden [N, d], weight [V, d], bias [V] or None, labels [N]. Equals PyTorch's cross_entropy with reduction "sum".
    Under autocast, products use its dtype; the softmax is always in fp32.
    """
    return linear_loss(hidden, weight, bias, labels, partial(_loss_and_gradient, smoothing=label_smoothing))


def linear_loss(hidden: Tensor, weight: Tensor, bias: Tensor | None, labels: Tensor, criterion: Criterion) -> Tensor:
    """A criterion of hidden @ weight.T + bias, summed over N tokens, one slice of the logits at a time.

    Shapes are those of `linear_cross_entropy`; the criterion receives logits in fp32.
    """
    device = hidden.device.type
    dtype = torch.get_autocast_dtype(device) if torch.is_autocast_enabled(device) else hidden.dtype
    total: Tensor = _LinearLoss.apply(  # type: ignore[no-untyped-call]
        hidden, weight, bias, labels, criterion, dtype
    )
    return total


class _LinearLoss(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        hidden: Tensor,
        weight: Tensor,
        bias: Tensor | None,
        labels: Tensor,
        criterion: Criterion,
        dtype: torch.dtype,
    ) -> Tensor:
        wanted = ctx.needs_input_grad[:3]
        total = torch.zeros((), dtype=torch.float32, device=hidden.device)
        hidden_grad = torch.empty_like(hidden) if wanted[0] else None
        weight_grad: Tensor | None = None
        large = len(weight) >= LARGE_VOCABULARY
        if wanted[1] and not (large and len(labels)):
            weight_grad = torch.zeros_like(weight, dtype=torch.float32)
        bias_grad = torch.zeros_like(bias, dtype=torch.float32) if bias is not None and wanted[2] else None
        matrix = weight.to(dtype)
        rows = loss_slice_rows(*weight.shape)
        for start in range(0, len(labels), rows):
            part = slice(start, start + rows)
            states = hidden[part].to(dtype)
            logits = (states @ matrix.T).float()
            if bias is not None:
                logits += bias
            loss, gradient = criterion(logits, labels[part])
            total += loss
            if bias_grad is not None:
                bias_grad += gradient.sum(dim=0)
            gradient = gradient.to(dtype)
            if hidden_grad is not None:
                hidden_grad[part] = gradient @ matrix
            if large and wanted[1]:
                weight_grad = _with_product(weight_grad, gradient, states)
            elif weight_grad is not None:
                weight_grad += gradient.T @ states
        ctx.save_for_backward(hidden_grad, weight_grad, bias_grad)
        return total

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        (scale,) = gradients
        # In place: that of the projection is as large as the table. A second pass backward would be refused.
        return (
            *(gradient.mul_(scale) if gradient is not None else None for gradient in ctx.saved_tensors),
            None,
            None,
            None,
        )


def _with_product(total: Tensor | None, gradient: Tensor, states: Tensor) -> Tensor:
    """Add a slice's gradient to the gradient of a large weight [V, d], in fp32.

    It allocates another tensor of that size only if the product has another dtype.
    """
    if total is None:
        return (gradient.T @ states).float()
    if states.dtype == total.dtype:
        return total.addmm_(gradient.T, states)
    return total.add_(gradient.T @ states)


def _loss_and_gradient(logits: Tensor, labels: Tensor, smoothing: float) -> tuple[Tensor, Tensor]:
    """The summed loss of a slice of logits [n, V], and its gradient with respect to them."""
    scores = logits.log_softmax(dim=1)
    gold = scores.gather(1, labels[:, None])
    loss = (smoothing - 1.0) * gold.sum()
    if smoothing:
        loss -= smoothing / logits.shape[1] * scores.sum()
    gradient = scores.exp_()
    if smoothing:
        gradient.sub_(smoothing / logits.shape[1])
    gradient.scatter_add_(1, labels[:, None], torch.full_like(gold, smoothing - 1.0))
    return loss, gradient
