"""Batch plans: the examples of each batch, from one source, from several in turn, or from two in every batch.

A plan is a function of (seed, epoch, first step of the epoch), so a resumed training sees the same batches."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import zip_longest

import numpy as np

from subgraft.data.text.batches import Batches, BatchFiles, BatchPlan


@dataclass(frozen=True)
class MixedPlan:
    """Batches from several sources: each batch has one source, drawn by weight as a function of (seed, epoch).

    Examples are numbered source after source. An epoch ends when the drawn source has no batch left ("stop when the
    first is exhausted"), so no example occurs twice in it. The remaining examples occur in later epochs, which are
    shuffled again.
    """

    plans: Sequence[RampedPlan]
    weights: Sequence[float]
    seed: int

    @cached_property
    def lengths(self) -> np.ndarray:
        return np.concatenate([plan.lengths for plan in self.plans])

    def largest(self) -> list[np.ndarray]:
        """The batches of all sources in the first epoch, for choosing the one that needs most memory."""
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
        """The parts of a batch that are computed separately: one, because a batch has one source."""
        return [batch]

    @cached_property
    def _first(self) -> list[int]:
        """The number of each source's first example."""
        return [0, *np.cumsum([len(plan.costs) for plan in self.plans])[:-1].tolist()]


# Batches that each take a share from two sources of examples.


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
        """The batches of both sources' first epochs, for choosing the part that needs most memory.

        They are paired as far as possible; the rest of the longer epoch follows unpaired.
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
        """The two sources' parts of a batch, computed separately to avoid padding to the other's longest example."""
        of_first = batch < self._before
        return [part for part in (batch[of_first], batch[~of_first]) if len(part)]

    def _second_from(self, step: int) -> Iterator[np.ndarray]:
        """The batches of `second` from an update on, without end."""
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


# Batches whose size grows with the steps, composed as a function of (seed, epoch, the epoch's first step) alone.


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
        """The cost of each example in a batch of the largest size [n]."""
        return self._plan(max(size for _, size in self.sizes)).lengths

    def largest(self) -> Sequence[np.ndarray]:
        """The batches of the first epoch at the largest size, for choosing the one that needs most memory."""
        return self._epoch(max(size for _, size in self.sizes), 0)

    def epoch(self, epoch: int, first_step: int = 0) -> Sequence[np.ndarray]:
        """The batches of an epoch: arrays of example indices, each example exactly once.

        When the size changes within the epoch, the remaining examples are batched again.
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
        """The parts of a batch that are computed separately: one."""
        return [batch]

    def _epoch(self, size: int, epoch: int) -> Batches:
        plan = self._plan(size)
        return plan.epoch(epoch) if self.files is None else self.files.epoch(plan, epoch)

    def _plan(self, size: int, chosen: np.ndarray | None = None) -> BatchPlan:
        costs = self.costs if chosen is None else self.costs[chosen]
        most = self.most or size
        # Most often nothing is cut: then it is the same array, not another one as large.
        return BatchPlan(np.minimum(costs, most) if len(costs) and costs.max() > most else costs, size, self.seed)
