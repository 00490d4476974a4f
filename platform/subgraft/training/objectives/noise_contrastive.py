"""Output projection and noise-contrastive estimation as one operation (Mnih and Teh, ICML 2012).

A logistic regression tells each target from k tokens of noise, which all targets of a batch share (Zoph et al., NAACL
2016, section 3). Noise is drawn from all V tokens alike, and the softmax's denominator is taken for V: then what tells
them apart is the logit less ln k.
"""

from __future__ import annotations

import math
from functools import partial

from torch import Tensor
from torch.nn.functional import logsigmoid, softplus

from subgraft.training.objectives.cross_entropy import linear_loss


def linear_noise_contrast(hidden: Tensor, weight: Tensor, bias: Tensor | None, labels: Tensor, noise: Tensor) -> Tensor:
    """The loss of N targets among C tokens, summed, in nats.

    hidden [N, d], weight [C, d], bias [C] or None, labels [N]; noise [C] bool: which of the tokens were drawn.
    """
    return linear_loss(hidden, weight, bias, labels, partial(_loss_and_gradient, noise=noise))


def _loss_and_gradient(logits: Tensor, labels: Tensor, noise: Tensor) -> tuple[Tensor, Tensor]:
    drawn = noise.to(logits.dtype)
    odds = logits - math.log(float(drawn.sum()))
    gold = odds.gather(1, labels[:, None])
    loss = (softplus(odds) * drawn).sum() - logsigmoid(gold).sum()
    gradient = odds.sigmoid_().mul_(drawn)
    gradient.scatter_add_(1, labels[:, None], -(-gold).sigmoid())
    return loss, gradient
