"""Regularises single embeddings: scales their updates and pulls them towards their initial values.

Adam normalises gradients, so scaling a gradient would not change the update. The update itself is scaled, after the
optimizer step. The L2 pull is decoupled from the gradient like AdamW's weight decay (Loshchilov and Hutter 2019,
algorithm 2), but towards the initial embedding instead of zero.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from torch import Tensor


@dataclass(frozen=True)
class RowUpdates:
    """Changes some rows of one parameter after each optimizer step, which has moved a row from E to E':

        E <- E + factor (E' - E) + min(1, learning_rate * l2_to_init) (start - E)

    Attributes:
        table: the parameter, embeddings [V, d] or a bias [V].
        rows: int64 [n], the regularised rows.
        factor: scale of every update.
        l2_to_init: fp32 [n], strength of the decay towards `start`.
        start: [n, d] or [n], the rows before the first step; a resumed training must pass the same.
    """

    table: Tensor
    rows: Tensor
    factor: float
    l2_to_init: Tensor
    start: Tensor

    @classmethod
    def of(cls, table: Tensor, rows: Tensor, factor: float, l2_to_init: Tensor) -> RowUpdates:
        """With the current rows of the parameter as `start`."""
        return cls(table, rows, factor, l2_to_init, table.detach()[rows].clone())

    def to(self, device: torch.device) -> RowUpdates:
        """With all tensors except the parameter, which moves with its model, on a device."""
        rows, l2_to_init, start = (each.to(device) for each in (self.rows, self.l2_to_init, self.start))
        return replace(self, rows=rows, l2_to_init=l2_to_init, start=start)

    def before(self) -> Tensor:
        """The current rows; pass them to `apply` after the optimizer step."""
        return self.table.detach()[self.rows]

    @torch.no_grad()
    def apply(self, before: Tensor, learning_rate: float) -> None:
        """Regularise the update, given the rows before it and the parameter's learning rate.

        With factor 1 and l2_to_init 0 the rows are not changed, to the bit.
        """
        after = self.before()
        if self.factor != 1.0:
            after = before + self.factor * (after - before)
        if self.l2_to_init.any():
            share = (learning_rate * self.l2_to_init).clamp(max=1.0).reshape(-1, *[1] * (before.ndim - 1))
            after += share * (self.start - before)
        self.table[self.rows] = after
