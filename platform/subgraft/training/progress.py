"""The progress of a training, its hooks on the way, and its outcome."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from torch import Tensor

    from subgraft.training.engine import Batch, Engine


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


# What is done to the batches of an update before they are computed, by what is known of those to come.


class Preparation(Protocol):
    """All workers call all of this in step, with their own shares of the same batches.

    every: how many updates it looks ahead, and how often it does: before each update that comes after a multiple of so
    many, so that when it does is a function of the step. None where it never does. What it has seen is its state, which
    checkpoints keep.
    """

    every: int | None

    def look_ahead(self, batches: Iterable[Batch], engine: Engine) -> None:
        """batches: those of the next updates, as far as the training goes."""
        ...

    def prepare(self, batches: Sequence[Batch], step: int, engine: Engine) -> Sequence[Batch]:
        """The micro-batches of the update that comes after `step` others, as they are computed."""
        ...

    def measured(self) -> Mapping[str, float]:
        """What is told of the last update."""
        ...

    def state(self) -> dict[str, Tensor]: ...

    def load_state(self, tensors: Mapping[str, Tensor]) -> None: ...
