"""Rows of a table that follow the optimizer in part, and that are drawn towards where they began.

Adam divides a gradient by its own size, so a row whose gradient is scaled down moves as far as before. What is scaled
here is the update, after the optimizer has made it. The pull is decoupled from the gradient, as AdamW's weight decay is
(Loshchilov and Hutter 2019, algorithm 2), but towards the row's beginning rather than towards zero.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from torch import Tensor


@dataclass(frozen=True)
class RowUpdates:
    """Some rows of one table, for an engine to treat in every step. After the optimizer has taken row E from E to E':

        E <- E + factor (E' - E) + min(1, learning_rate * pull) (start - E)

    table [V, d], or a bias [V]: a parameter.  rows int64 [n].  factor: of every update.  pull fp32 [n].  start [n, d],
    or [n]: the rows before the first step of all, which a training that is resumed must be given again.
    """

    table: Tensor
    rows: Tensor
    factor: float
    pull: Tensor
    start: Tensor

    @classmethod
    def of(cls, table: Tensor, rows: Tensor, factor: float, pull: Tensor) -> RowUpdates:
        """Of a table as it is at the start."""
        return cls(table, rows, factor, pull, table.detach()[rows].clone())

    def to(self, device: torch.device) -> RowUpdates:
        """With everything but the table, which moves with its model, on a device."""
        return replace(self, rows=self.rows.to(device), pull=self.pull.to(device), start=self.start.to(device))

    def before(self) -> Tensor:
        """The rows as they are, to be handed back after the optimizer's step."""
        return self.table.detach()[self.rows]

    @torch.no_grad()
    def apply(self, before: Tensor, learning_rate: float) -> None:
        """After the optimizer's step, at the table's learning rate. Without factor and pull not a bit changes."""
        after = self.before()
        if self.factor != 1.0:
            after = before + self.factor * (after - before)
        if self.pull.any():
            share = (learning_rate * self.pull).clamp(max=1.0).reshape(-1, *[1] * (before.ndim - 1))
            after += share * (self.start - before)
        self.table[self.rows] = after
