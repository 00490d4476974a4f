"""Output projection and log-likelihood of each token as one operation, one slice of the tokens at a time.

Unlike `cross_entropy` it returns one value per token, whose gradient is not known in the forward pass. So the backward
pass computes the logits of each slice again; still only one slice exists at any time.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from subgraft.training.objectives.logit_slices import slice_rows


def linear_log_likelihood(
    hidden: Tensor, weight: Tensor, bias: Tensor | None, labels: Tensor, members: Tensor | None = None
) -> tuple[Tensor, Tensor]:
    """Log-likelihoods under softmax(hidden @ weight.T + bias), in nats.

    Under autocast, products use its dtype; the softmax is always in fp32.

    Args:
        hidden: states [N, d].
        weight: output projection [V, d].
        bias: [V] or None.
        labels: ids [N].
        members: bool [V], a non-empty set of tokens.

    Returns:
        Two tensors [N], at least in fp32: the log-likelihood of each label, and that of the set of members (zero
        without `members`).
    """
    device = hidden.device.type
    dtype = torch.get_autocast_dtype(device) if torch.is_autocast_enabled(device) else hidden.dtype
    found: tuple[Tensor, Tensor] = _LinearLogLikelihood.apply(  # type: ignore[no-untyped-call]
        hidden, weight, bias, labels, members, dtype
    )
    return found


class _LinearLogLikelihood(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        hidden: Tensor,
        weight: Tensor,
        bias: Tensor | None,
        labels: Tensor,
        members: Tensor | None,
        dtype: torch.dtype,
    ) -> tuple[Tensor, Tensor]:
        chosen = torch.zeros(len(labels), dtype=_exact(hidden), device=hidden.device)
        together = torch.zeros_like(chosen)
        matrix = weight.to(dtype)
        for part in _slices(len(labels), weight):
            scores = _scores(hidden[part], matrix, bias)
            chosen[part] = scores.gather(1, labels[part, None]).flatten()
            if members is not None:
                together[part] = scores[:, members].logsumexp(dim=1)
        ctx.save_for_backward(hidden, weight, bias, labels, members, together)
        ctx.dtype = dtype
        return chosen, together

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        of_chosen, of_together = gradients
        hidden, weight, bias, labels, members, together = ctx.saved_tensors
        wanted = ctx.needs_input_grad[:3]
        hidden_grad = torch.empty_like(hidden) if wanted[0] else None
        weight_grad = torch.zeros_like(weight, dtype=_exact(weight)) if wanted[1] else None
        bias_grad = torch.zeros_like(bias, dtype=_exact(bias)) if wanted[2] else None
        matrix = weight.to(ctx.dtype)
        for part in _slices(len(labels), weight):
            scores, down = _scores(hidden[part], matrix, bias), of_chosen[part, None]
            inside = None if members is None else (scores[:, members] - together[part, None]).exp_()
            gradient = scores.exp_().mul_(-(down if inside is None else down + of_together[part, None]))
            gradient.scatter_add_(1, labels[part, None], down)
            if inside is not None:
                gradient[:, members] += inside * of_together[part, None]
            if bias_grad is not None:
                bias_grad += gradient.sum(dim=0)
            gradient = gradient.to(ctx.dtype)
            if hidden_grad is not None:
                hidden_grad[part] = gradient @ matrix
            if weight_grad is not None:
                weight_grad += gradient.T @ hidden[part].to(ctx.dtype)
        return hidden_grad, weight_grad, bias_grad, None, None, None


def _scores(states: Tensor, matrix: Tensor, bias: Tensor | None) -> Tensor:
    """The log-softmax of a slice's logits [n, V]."""
    logits = states.to(matrix.dtype) @ matrix.T
    logits = logits.to(_exact(logits))
    if bias is not None:
        logits += bias
    return logits.log_softmax(dim=1)


def _exact(tensor: Tensor) -> torch.dtype:
    return torch.promote_types(tensor.dtype, torch.float32)


def _slices(count: int, weight: Tensor) -> list[slice]:
    rows = slice_rows(*weight.shape)
    return [slice(start, start + rows) for start in range(0, count, rows)]
