"""Batches that each take a share from two sources of examples."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from itertools import zip_longest

import numpy as np

from subgraft.training.ramped_plan import RampedPlan


@dataclass(frozen=True)
class JointPlan:
    """Batches of which each has a batch of `first` and one of `second`, whose examples are numbered after those.

    An epoch is one over `first`. The second's batches come one with each update, epoch after epoch of their own, from
    where the last update left them: so many updates see so much of them, whatever there is of the first.
    """

    first: RampedPlan
    second: RampedPlan
    # At which update each epoch of the second begins, as far as anybody asked.
    _begins: list[int] = field(default_factory=lambda: [0], compare=False, repr=False)

    @cached_property
    def lengths(self) -> np.ndarray:
        return np.concatenate([self.first.lengths, self.second.lengths])

    def largest(self) -> list[np.ndarray]:
        """The batches of both sources' first epochs, by pairs as long as there are such: memory must suffice for these.

        What memory is needed for is a part of a batch, and each part is here.
        """
        nothing = np.zeros(0, dtype=np.int64)
        pairs = zip_longest(self.first.largest(), self.second.largest(), fillvalue=nothing)
        return [np.concatenate([one, other + self._before]) for one, other in pairs]

    def epoch(self, epoch: int, first_step: int = 0) -> list[np.ndarray]:
        """The batches of an epoch: each example of the first exactly once."""
        return [
            np.concatenate([one, other + self._before])
            for one, other in zip(self.first.epoch(epoch, first_step), self._second_from(first_step), strict=False)
        ]

    def parts(self, batch: np.ndarray) -> list[np.ndarray]:
        """A batch by its sources, each computed by itself: no example is padded to the longest of the other source."""
        of_first = batch < self._before
        return [part for part in (batch[of_first], batch[~of_first]) if len(part)]

    def _second_from(self, step: int) -> Iterator[np.ndarray]:
        """The second's batches from an update on, without end."""
        epoch = 0
        while self._begin(epoch + 1) <= step:
            epoch += 1
        passed = step - self._begin(epoch)
        while True:
            yield from self.second.epoch(epoch, self._begin(epoch))[passed:]
            epoch, passed = epoch + 1, 0

    def _begin(self, epoch: int) -> int:
        while len(self._begins) <= epoch:
            begun = len(self._begins) - 1
            self._begins.append(self._begins[begun] + len(self.second.epoch(begun, self._begins[begun])))
        return self._begins[epoch]

    @property
    def _before(self) -> int:
        """How many examples the first has."""
        return len(self.first.costs)
