"""What is done to the batches of an update before they are computed, by what is known of those to come."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from torch import Tensor

    from subgraft.training.engine import Batch, Engine


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
