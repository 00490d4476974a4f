"""Optimizers and learning-rate schedules by name, the same for both engines."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import torch

from subgraft.config.training import OptimizerName, ScheduleName, TrainingSettings


@dataclass(frozen=True)
class OptimizerKind:
    """An optimizer.

    Attributes:
        torch_class: its class in torch.optim.
        moments: names of its state tensors of each parameter.
        can_fuse: whether it has a fused kernel.
    """

    torch_class: type[torch.optim.Optimizer]
    moments: tuple[str, str]
    can_fuse: bool

    @property
    def name(self) -> str:
        return self.torch_class.__name__


# AdamW: Loshchilov and Hutter 2019, algorithm 2.  Adamax: Kingma and Ba 2015, algorithm 2, with the infinity norm of
# past gradients in place of their mean square.
OPTIMIZERS: Mapping[OptimizerName, OptimizerKind] = {
    "adamw": OptimizerKind(torch.optim.AdamW, ("exp_avg", "exp_avg_sq"), can_fuse=True),
    "adamax": OptimizerKind(torch.optim.Adamax, ("exp_avg", "exp_inf"), can_fuse=False),
}


def optimizer_arguments(settings: TrainingSettings) -> dict[str, Any]:
    """The optimizer's arguments, except the parameters."""
    return {
        "lr": settings.learning_rate,
        "betas": (settings.adam_beta1, settings.adam_beta2),
        "eps": settings.adam_epsilon,
        "weight_decay": settings.weight_decay,
    }


def make_optimizer(settings: TrainingSettings, groups: list[dict[str, Any]]) -> torch.optim.Optimizer:
    """The configured optimizer for these parameter groups."""
    kind = OPTIMIZERS[settings.optimizer]
    fused: dict[str, Any] = {"fused": True} if kind.can_fuse else {}
    return kind.torch_class(groups, **optimizer_arguments(settings), **fused)


# Learning rates by name, as shares of the peak. To add one: a function, a line in SCHEDULES, its name in the settings.
#
# All but `noam` warm up linearly to the settings' `learning_rate` and then fall, or stay. Steps count from 1.


@dataclass(frozen=True)
class ScheduleLength:
    """Inputs of a schedule. total: the planned steps.  width: of hidden states.  Both are 0 if they are not needed."""

    warmup: int
    total: int = 0
    width: int = 0


@dataclass(frozen=True)
class Schedule:
    """A schedule. factor: maps a step to a multiple of the setting `learning_rate`."""

    factor: Callable[[int, ScheduleLength], float]
    needs_total: bool = False
    needs_width: bool = False


def _inverse_square_root(step: int, length: ScheduleLength) -> float:
    """min(t / w, √(w / t)): Vaswani et al. 2017, equation 3, scaled so that its peak, at step w, is 1."""
    return min(step / length.warmup, math.sqrt(length.warmup / step))


def _noam(step: int, length: ScheduleLength) -> float:
    """d^-½ min(t^-½, t w^-1½): Vaswani et al. 2017, equation 3, as printed: `learning_rate` is a factor, not a peak."""
    return min(1 / math.sqrt(step), step / (length.warmup * math.sqrt(length.warmup))) / math.sqrt(length.width)


def _linear(step: int, length: ScheduleLength) -> float:
    """t / w, then (T + 1 - t) / (T + 1 - w): Devlin et al. 2019, appendix A.2; zero at the step after the last."""
    return _warmup_factor(step, length) or max(0.0, 1.0 - _decay_fraction(step, length))


def _cosine(step: int, length: ScheduleLength) -> float:
    """t / w, then ½ (1 + cos(π s)), s = (t - w) / (T + 1 - w): Loshchilov and Hutter 2017 (SGDR), equation 5."""
    return _warmup_factor(step, length) or 0.5 * (1.0 + math.cos(math.pi * min(1.0, _decay_fraction(step, length))))


def _constant(step: int, length: ScheduleLength) -> float:
    return min(step / length.warmup, 1.0)


def _warmup_factor(step: int, length: ScheduleLength) -> float | None:
    return step / length.warmup if step <= length.warmup else None


def _decay_fraction(step: int, length: ScheduleLength) -> float:
    """The fraction of the decay that is done, from the end of the warm-up to the step after the last; may exceed 1."""
    return (step - length.warmup) / max(1, length.total + 1 - length.warmup)


SCHEDULES: Mapping[ScheduleName, Schedule] = {
    "inverse-square-root": Schedule(_inverse_square_root),
    "noam": Schedule(_noam, needs_width=True),
    "linear": Schedule(_linear, needs_total=True),
    "cosine": Schedule(_cosine, needs_total=True),
    "constant": Schedule(_constant),
}


def learning_rate(settings: TrainingSettings, step: int, length: ScheduleLength) -> float:
    """The learning rate of a step, counted from 1."""
    return settings.learning_rate * SCHEDULES[settings.schedule].factor(step, length)
