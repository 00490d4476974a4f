"""Batches whose size grows with the steps, composed as a function of (seed, epoch, the epoch's first step) alone."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from subgraft.data.text.batch_files import BatchFiles
from subgraft.data.text.batches import Batches, BatchPlan


@dataclass(frozen=True)
class RampedPlan:
    """How examples are cut into global batches of a size that holds from a step on.

    costs: [n] of the examples, as `BatchPlan` has them.  sizes: pairs (step, size), the first of step 0, steps going
    up; a size holds from the update that comes after so many others.  most: what one example costs at most, which is
    the size of its batch where None.  files: where the batches of many examples lie for all workers; None: nowhere.
    """

    costs: np.ndarray
    sizes: Sequence[tuple[int, int]]
    most: int | None
    seed: int
    files: BatchFiles | None = None

    @cached_property
    def lengths(self) -> np.ndarray:
        """[n] what each example costs in a batch of the largest size."""
        return self._plan(max(size for _, size in self.sizes)).lengths

    def largest(self) -> Sequence[np.ndarray]:
        """The batches of a first epoch that has the largest size throughout: memory must suffice for these."""
        return self._epoch(max(size for _, size in self.sizes), 0)

    def epoch(self, epoch: int, first_step: int = 0) -> Sequence[np.ndarray]:
        """The batches of an epoch: arrays of example indices, each example exactly once.

        Where another size begins within the epoch, what is left of it is composed anew.
        """
        begins = [size for step, size in self.sizes if step <= first_step]
        batches: Sequence[np.ndarray] = self._epoch(begins[-1], epoch)
        for step, size in self.sizes[len(begins) :]:
            before = batches[: step - first_step]
            if len(before) == len(batches):
                break
            rest = np.sort(np.concatenate(batches[len(before) :]))
            again = self._plan(size, rest).epoch(epoch)
            batches = [*before, *(rest[batch] for batch in again)]
        return batches

    def parts(self, batch: np.ndarray) -> list[np.ndarray]:
        """What of a batch is computed at once, where memory sets no limit: all of it."""
        return [batch]

    def _epoch(self, size: int, epoch: int) -> Batches:
        plan = self._plan(size)
        return plan.epoch(epoch) if self.files is None else self.files.epoch(plan, epoch)

    def _plan(self, size: int, chosen: np.ndarray | None = None) -> BatchPlan:
        costs = self.costs if chosen is None else self.costs[chosen]
        most = self.most or size
        # Most often nothing is cut: then it is the same array, not another one as large.
        return BatchPlan(np.minimum(costs, most) if len(costs) and costs.max() > most else costs, size, self.seed)
