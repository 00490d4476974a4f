"""Output projection and cross entropy or log-likelihood as one operation, one slice of the tokens at a time.

The logits of a batch are by far its largest tensor ([N, V]: a gigabyte for 4,000 tokens and 64,000 subwords). Only one
slice of them exists at any time, because the gradient of a slice is computed together with its loss. This is not
possible for log-likelihoods, one value per token whose incoming gradients the forward pass does not know. So their
backward pass recomputes the logits of each slice.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, TypeAlias

import torch
from torch import Tensor

from subgraft.modeling.families.family import softcap
from subgraft.training.objectives.compute.logit_slices import LARGE_VOCABULARY, loss_slice_rows, slice_rows


def linear_log_likelihood(
    hidden: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    labels: Tensor,
    members: Tensor | None = None,
    cap: float | None = None,
) -> tuple[Tensor, Tensor]:
    """Log-likelihoods under softmax(hidden @ weight.T + bias), in nats.

    Under autocast, products use its dtype; the softmax is always in fp32.

    Args:
        hidden: states [N, d].
        weight: output projection [V, d].
        bias: [V] or None.
        labels: ids [N].
        members: bool [V], a non-empty set of tokens.
        cap: c if logits x become c * tanh(x / c) before the softmax.

    Returns:
        Two tensors [N], at least in fp32: the log-likelihood of each label, and that of the set of members (zero
        without `members`).
    """
    likelihoods: tuple[Tensor, Tensor] = _LinearLogLikelihood.apply(  # type: ignore[no-untyped-call]
        hidden, weight, bias, labels, members, cap, _product_dtype(hidden)
    )
    return likelihoods


class _LinearLogLikelihood(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        hidden: Tensor,
        weight: Tensor,
        bias: Tensor | None,
        labels: Tensor,
        members: Tensor | None,
        cap: float | None,
        dtype: torch.dtype,
    ) -> tuple[Tensor, Tensor]:
        label_scores = torch.zeros(len(labels), dtype=_accumulation_dtype(hidden), device=hidden.device)
        member_scores = torch.zeros_like(label_scores)
        matrix = weight.to(dtype)
        for part in _slices(len(labels), weight):
            scores = _logits(hidden[part], matrix, bias, cap).log_softmax(dim=1)
            label_scores[part] = scores.gather(1, labels[part, None]).flatten()
            if members is not None:
                member_scores[part] = scores[:, members].logsumexp(dim=1)
        ctx.save_for_backward(hidden, weight, bias, labels, members, member_scores)
        ctx.cap, ctx.dtype = cap, dtype
        return label_scores, member_scores

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        label_grad, member_grad = gradients
        hidden, weight, bias, labels, members, member_scores = ctx.saved_tensors
        needs_grad = ctx.needs_input_grad[:3]
        hidden_grad = torch.empty_like(hidden) if needs_grad[0] else None
        weight_grad = torch.zeros_like(weight, dtype=_accumulation_dtype(weight)) if needs_grad[1] else None
        bias_grad = torch.zeros_like(bias, dtype=_accumulation_dtype(bias)) if needs_grad[2] else None
        matrix = weight.to(ctx.dtype)
        for part in _slices(len(labels), weight):
            logits, upstream = _logits(hidden[part], matrix, bias, ctx.cap), label_grad[part, None]
            softcap_grad = None if ctx.cap is None else _softcap_gradient(logits, ctx.cap)
            scores = logits.log_softmax(dim=1)
            del logits  # a slice takes much memory
            member_shares = None if members is None else (scores[:, members] - member_scores[part, None]).exp_()
            gradient = scores.exp_().mul_(-(upstream if member_shares is None else upstream + member_grad[part, None]))
            gradient.scatter_add_(1, labels[part, None], upstream)
            if member_shares is not None:
                gradient[:, members] += member_shares * member_grad[part, None]
            if softcap_grad is not None:
                gradient.mul_(softcap_grad)
            if bias_grad is not None:
                bias_grad += gradient.sum(dim=0)
            gradient = gradient.to(ctx.dtype)
            if hidden_grad is not None:
                hidden_grad[part] = gradient @ matrix
            if weight_grad is not None:
                weight_grad += gradient.T @ hidden[part].to(ctx.dtype)
        return hidden_grad, weight_grad, bias_grad, None, None, None, None


def _logits(states: Tensor, matrix: Tensor, bias: Tensor | None, cap: float | None) -> Tensor:
    """The logits of a slice [n, V], capped, at least in fp32."""
    logits = states.to(matrix.dtype) @ matrix.T
    logits = logits.to(_accumulation_dtype(logits))
    if bias is not None:
        logits += bias
    return softcap(logits, cap)


def _softcap_gradient(softcapped: Tensor, cap: float) -> Tensor:
    """The derivative of capped logits with respect to the logits before the cap."""
    return 1.0 - (softcapped / cap).square_()


def _product_dtype(hidden: Tensor) -> torch.dtype:
    device = hidden.device.type
    return torch.get_autocast_dtype(device) if torch.is_autocast_enabled(device) else hidden.dtype


def _accumulation_dtype(tensor: Tensor) -> torch.dtype:
    return torch.promote_types(tensor.dtype, torch.float32)


def _slices(count: int, weight: Tensor) -> list[slice]:
    rows = slice_rows(weight.shape[0], weight.shape[1], weight.is_cuda)
    return [slice(start, start + rows) for start in range(0, count, rows)]


# Maps a slice of logits [n, V] and labels [n] to the summed loss and its gradient with respect to the logits. It may
# overwrite the logits.
Criterion: TypeAlias = Callable[[Tensor, Tensor], tuple[Tensor, Tensor]]


def linear_cross_entropy(
    hidden: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    labels: Tensor,
    label_smoothing: float = 0.0,
    cap: float | None = None,
    offsets: Tensor | None = None,
) -> Tensor:
    """Cross entropy of softmax(hidden @ weight.T + bias), summed over N tokens, in nats.

    It equals PyTorch's cross_entropy with reduction "sum". Under autocast, products use its dtype; the softmax is
    always in fp32.

    Args:
        hidden: states [N, d].
        weight: output projection [V, d].
        bias: [V] or None.
        labels: ids [N].
        label_smoothing: weight of the uniform distribution.
        cap: c if logits x become c * tanh(x / c) before the softmax.
        offsets: [V], added to the logits after that; they have no gradient.
    """
    criterion = partial(_loss_and_gradient, smoothing=label_smoothing, offsets=offsets)
    return linear_loss(hidden, weight, bias, labels, criterion, cap)


def linear_loss(
    hidden: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    labels: Tensor,
    criterion: Criterion,
    cap: float | None = None,
) -> Tensor:
    """A criterion of hidden @ weight.T + bias, summed over N tokens, one slice of the logits at a time.

    Shapes are those of `linear_cross_entropy`; the criterion receives logits in fp32, capped by `cap`, if any.
    """
    total: Tensor = _LinearLoss.apply(  # type: ignore[no-untyped-call]
        hidden, weight, bias, labels, criterion, cap, _product_dtype(hidden)
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
        cap: float | None,
        dtype: torch.dtype,
    ) -> Tensor:
        needs_grad = ctx.needs_input_grad[:3]
        total = torch.zeros((), dtype=torch.float32, device=hidden.device)
        hidden_grad = torch.empty_like(hidden) if needs_grad[0] else None
        weight_grad: Tensor | None = None
        large = len(weight) >= LARGE_VOCABULARY
        if needs_grad[1] and not (large and len(labels)):
            weight_grad = torch.zeros_like(weight, dtype=torch.float32)
        bias_grad = torch.zeros_like(bias, dtype=torch.float32) if bias is not None and needs_grad[2] else None
        matrix = weight.to(dtype)
        rows = loss_slice_rows(weight.shape[0], weight.shape[1], weight.is_cuda)
        for start in range(0, len(labels), rows):
            part = slice(start, start + rows)
            states = hidden[part].to(dtype)
            logits = (states @ matrix.T).float()
            if bias is not None:
                logits += bias
            logits = softcap(logits, cap)
            # Computed before the criterion, which may overwrite the logits.
            softcap_grad = None if cap is None else _softcap_gradient(logits, cap)
            loss, gradient = criterion(logits, labels[part])
            total += loss
            if softcap_grad is not None:
                gradient = gradient * softcap_grad
            if bias_grad is not None:
                bias_grad += gradient.sum(dim=0)
            gradient = gradient.to(dtype)
            if hidden_grad is not None:
                hidden_grad[part] = gradient @ matrix
            if large and needs_grad[1]:
                weight_grad = _add_product(weight_grad, gradient, states)
            elif weight_grad is not None:
                weight_grad += gradient.T @ states
        ctx.save_for_backward(hidden_grad, weight_grad, bias_grad)
        return total

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        (scale,) = gradients
        # In place, because the projection's gradient is as large as the table. So there is no second backward pass.
        return (
            *(gradient.mul_(scale) if gradient is not None else None for gradient in ctx.saved_tensors),
            None,
            None,
            None,
            None,
        )


def _add_product(total: Tensor | None, gradient: Tensor, states: Tensor) -> Tensor:
    """Add the gradient of a slice to the gradient of a large weight [V, d], in fp32.

    Another tensor of that size is allocated only if the product has another dtype.
    """
    if total is None:
        return (gradient.T @ states).float()
    if states.dtype == total.dtype:
        return total.addmm_(gradient.T, states)
    return total.add_(gradient.T @ states)


def _loss_and_gradient(
    logits: Tensor, labels: Tensor, smoothing: float, offsets: Tensor | None
) -> tuple[Tensor, Tensor]:
    """The summed loss of a slice of logits [n, V] plus offsets [V], and its gradient with respect to the logits."""
    scores = (logits if offsets is None else logits + offsets).log_softmax(dim=1)
    gold = scores.gather(1, labels[:, None])
    loss = (smoothing - 1.0) * gold.sum()
    if smoothing:
        loss -= smoothing / logits.shape[1] * scores.sum()
    gradient = scores.exp_()
    if smoothing:
        gradient.sub_(smoothing / logits.shape[1])
    gradient.scatter_add_(1, labels[:, None], torch.full_like(gold, smoothing - 1.0))
    return loss, gradient
