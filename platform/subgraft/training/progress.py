"""The progress of a training, the selection of its best weights, its result, and the hook that prepares batches."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from torch import Tensor

    from subgraft.training.engine import Batch, Engine


@dataclass(frozen=True)
class CurvePoint:
    """Scores after `step` updates. epoch: may be fractional.  seconds: of training, without evaluation."""

    step: int
    epoch: float
    seconds: float
    values: dict[str, float]


@dataclass
class Progress:
    """The state of a training, except its tensors: what a checkpoint's JSON holds."""

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
    """The result of a training.

    Attributes:
        curve: dev scores over the training.
        steps: number of updates.
        best_step: the step whose weights the module has.
        seconds: of training, without evaluation.
        trained_parameters: number of trained elements.
        precision: the precision that `auto` selected; None if it was configured.
        products: the library of matrix products, if it is not PyTorch's default.
    """

    curve: tuple[CurvePoint, ...]
    steps: int
    best_step: int
    seconds: float
    trained_parameters: int = 0
    precision: Mapping[str, Any] | None = None
    products: str | None = None


class Preparation(Protocol):
    """Look-ahead hook that rewrites batches before they are computed, for example to sample their targets.

    All workers call it at the same steps, with their shares of the same batches. Checkpoints include its state.

    every: the hook looks ahead every so many updates, and so many updates far; None: never.
    """

    every: int | None

    def look_ahead(self, batches: Iterable[Batch], engine: Engine) -> None:
        """Called with the batches of the next `every` updates, up to the end of the training."""
        ...

    def prepare(self, batches: Sequence[Batch], step: int, engine: Engine) -> Sequence[Batch]:
        """The micro-batches to compute in the update after `step` others."""
        ...

    def measured(self) -> Mapping[str, float]:
        """Metrics of the last update."""
        ...

    def state(self) -> dict[str, Tensor]: ...

    def load_state(self, tensors: Mapping[str, Tensor]) -> None: ...
