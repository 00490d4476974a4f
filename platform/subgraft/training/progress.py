"""The progress of a training, its hooks on the way, and its outcome."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class CurvePoint:
    """What is known of a training after `step` updates; epoch is fractional, seconds are of training alone."""

    step: int
    epoch: float
    seconds: float
    values: dict[str, float]


@dataclass
class Progress:
    """Where a training stands: all that a checkpoint holds beside tensors."""

    step: int = 0
    epoch: int = 0
    position: int = 0
    seconds: float = 0.0
    best_score: float | None = None
    best_step: int = 0
    stale: int = 0
    finished: bool = False
    curve: list[CurvePoint] = field(default_factory=list)

    @classmethod
    def from_state(cls, state: Mapping[str, Any]) -> Progress:
        return cls(**{**state, "curve": [CurvePoint(**point) for point in state["curve"]]})


@dataclass(frozen=True)
class Outcome:
    """A finished training: the curve, the step of the weights the module now has, and seconds of training.

    trained_parameters: how many numbers were trained.  precision: what `auto` came to; None where it was given.
    products: the library of its products, where PyTorch would have chosen another.
    """

    curve: tuple[CurvePoint, ...]
    steps: int
    best_step: int
    seconds: float
    trained_parameters: int = 0
    precision: Mapping[str, Any] | None = None
    products: str | None = None
