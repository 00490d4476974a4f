"""How far a finetuning has moved a pretrained language model, by the kind of its weights: a dev score like others."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping

import numpy as np
from torch import Tensor, nn

from subgraft.evaluation.metrics.parameter_drift import FEED_FORWARD, root_median_squared
from subgraft.modeling.families import family_of

# Parts of a layer, as transformers names them in models of one stack. What attends to a source is new, and is neither.
KINDS: Mapping[str, re.Pattern[str]] = {
    FEED_FORWARD: re.compile(r"\.mlp\."),
    "drift_attention": re.compile(r"\.(?:attn|self_attn)\."),
}


class Drift:
    """From the weights that a model has now, which are kept in memory: checkpoints need not be."""

    def __init__(self, model: nn.Module) -> None:
        stack = family_of(model).pretrained_stack(model)
        weights = {} if stack is None else {name: each for name, each in stack.named_parameters() if each.ndim == 2}
        self._now = {kind: [weights[name] for name in weights if form.search(name)] for kind, form in KINDS.items()}
        self._before = {kind: [_numbers(weight).copy() for weight in of_kind] for kind, of_kind in self._now.items()}

    def __call__(self) -> dict[str, float]:
        """By kind; nothing of a model that was not pretrained."""
        return {
            kind: root_median_squared(map(_numbers, self._now[kind]), before)
            for kind, before in self._before.items()
            if before
        }


def with_drift(scores: Callable[[], dict[str, float]], model: nn.Module) -> Callable[[], dict[str, float]]:
    """These dev scores, and the drift from how the model is now."""
    drift = Drift(model)
    return lambda: {**scores(), **drift()}


def _numbers(weight: Tensor) -> np.ndarray:
    return weight.detach().float().cpu().numpy()
