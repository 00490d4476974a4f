"""Batches of several sources of examples by turns."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from subgraft.training.ramped_plan import RampedPlan


@dataclass(frozen=True)
class MixedPlan:
    """Batches of several sources of examples, each of one source, drawn by weights as a function of (seed, epoch).

    Examples are numbered source after source. An epoch ends where a source is drawn that has no batch left, so that no
    example comes twice in it (as interleaving "until the first is exhausted" has it); what the others have left comes
    in other epochs, which are shuffled anew.
    """

    plans: Sequence[RampedPlan]
    weights: Sequence[float]
    seed: int

    @cached_property
    def lengths(self) -> np.ndarray:
        return np.concatenate([plan.lengths for plan in self.plans])

    def largest(self) -> list[np.ndarray]:
        """The batches of all sources in the first epoch: what memory must suffice for."""
        return [batch + first for plan, first in zip(self.plans, self._first, strict=True) for batch in plan.largest()]

    def epoch(self, epoch: int, first_step: int = 0) -> list[np.ndarray]:
        """The batches of an epoch: arrays of example indices, each example at most once."""
        del first_step  # their size never changes
        rng = np.random.default_rng([self.seed, epoch, len(self.plans)])
        left = [iter(plan.epoch(epoch)) for plan in self.plans]
        shares = np.array(self.weights) / np.sum(self.weights)
        batches: list[np.ndarray] = []
        while True:
            source = int(rng.choice(len(left), p=shares))
            drawn = next(left[source], None)
            if drawn is None:
                return batches
            batches.append(drawn + self._first[source])

    def parts(self, batch: np.ndarray) -> list[np.ndarray]:
        """What of a batch is computed at once, where memory sets no limit: all of it, which is of one source."""
        return [batch]

    @cached_property
    def _first(self) -> list[int]:
        """The number of each source's first example."""
        return [0, *np.cumsum([len(plan.costs) for plan in self.plans])[:-1].tolist()]
