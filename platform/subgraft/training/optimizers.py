"""Optimizers by name, the same under plain PyTorch and under DeepSpeed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch

from subgraft.config.training import OptimizerName, TrainingSettings


@dataclass(frozen=True)
class OptimizerKind:
    """A class of torch.optim.  moments: what it keeps of each parameter, by the names in its state.

    can_fuse: whether it has a kernel that updates everything at once.
    """

    of_torch: type[torch.optim.Optimizer]
    moments: tuple[str, str]
    can_fuse: bool

    @property
    def name(self) -> str:
        return self.of_torch.__name__


# AdamW: Loshchilov and Hutter 2019, algorithm 2.  Adamax: Kingma and Ba 2015, algorithm 2, with the infinity norm of
# past gradients in place of their mean square.
OPTIMIZERS: Mapping[OptimizerName, OptimizerKind] = {
    "adamw": OptimizerKind(torch.optim.AdamW, ("exp_avg", "exp_avg_sq"), can_fuse=True),
    "adamax": OptimizerKind(torch.optim.Adamax, ("exp_avg", "exp_inf"), can_fuse=False),
}


def optimizer_arguments(settings: TrainingSettings) -> dict[str, Any]:
    """What the optimizer is made with, beside its parameters."""
    return {
        "lr": settings.learning_rate,
        "betas": (settings.adam_beta1, settings.adam_beta2),
        "eps": settings.adam_epsilon,
        "weight_decay": settings.weight_decay,
    }


def make_optimizer(settings: TrainingSettings, groups: list[dict[str, Any]]) -> torch.optim.Optimizer:
    """The settings' optimizer of these parameter groups."""
    kind = OPTIMIZERS[settings.optimizer]
    fused: dict[str, Any] = {"fused": True} if kind.can_fuse else {}
    return kind.of_torch(groups, **optimizer_arguments(settings), **fused)
