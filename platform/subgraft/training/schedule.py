"""The batches of a training, and its steps: functions of its settings and seed.

A batch plan is a function of (seed, epoch, first step of the epoch), so a resumed training sees the same batches.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import zip_longest
from typing import TYPE_CHECKING, Protocol, TypeAlias, runtime_checkable

import numpy as np

from subgraft.config.training import TrainingSettings
from subgraft.data.text.batches import Batches, BatchFiles, BatchPlan
from subgraft.data.text.languages import LanguageDraws
from subgraft.training.streams import StreamedData, StreamPlan

if TYPE_CHECKING:
    from subgraft.training.engine import Batch


@dataclass(frozen=True)
class RampedPlan:
    """Global batches of one source of examples, whose size may grow with the steps.

    Attributes:
        costs: of the examples [n], as in `BatchPlan`.
        sizes: pairs (step, size), ascending from step 0: the size of batches from that step on.
        most: limit of an example's cost; None: the size of its batch.
        seed: of the order.
        files: where all workers read the batches of large data sets; None: batches are in memory.
        draws: which examples an epoch has; None: all.
    """

    costs: np.ndarray
    sizes: Sequence[tuple[int, int]]
    most: int | None
    seed: int
    files: BatchFiles | None = None
    draws: LanguageDraws | None = None

    @cached_property
    def lengths(self) -> np.ndarray:
        """The cost of each example in a batch of the largest size [n]."""
        return self._plan(max(size for _, size in self.sizes)).lengths

    def largest(self) -> Sequence[np.ndarray]:
        """The batches of the first epoch at the largest size, for choosing the one that needs most memory."""
        return self._epoch(max(size for _, size in self.sizes), 0)

    def epoch(self, epoch: int, first_step: int = 0) -> Sequence[np.ndarray]:
        """The batches of an epoch: arrays of example indices, each example exactly once, or those that are drawn.

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
        chosen = None if self.draws is None else self.draws.epoch(epoch)
        plan = self._plan(size, chosen)
        batches = plan.epoch(epoch) if self.files is None else self.files.epoch(plan, epoch)
        return batches if chosen is None else batches.of(chosen)

    def _plan(self, size: int, chosen: np.ndarray | None = None) -> BatchPlan:
        costs = self.costs if chosen is None else self.costs[chosen]
        most = self.most or size
        # Without a cost above the limit the array is not copied.
        return BatchPlan(np.minimum(costs, most) if len(costs) and costs.max() > most else costs, size, self.seed)


@dataclass(frozen=True)
class _SeveralPlans:
    """Plans whose examples are numbered plan after plan; each batch is of one plan."""

    plans: Sequence[RampedPlan | StreamPlan | MixedPlan]

    @cached_property
    def lengths(self) -> np.ndarray:
        return np.concatenate([plan.lengths for plan in self.plans])

    def largest(self) -> list[np.ndarray]:
        """The batches of every plan's first epoch, for choosing the one that needs most memory."""
        return [batch + first for plan, first in zip(self.plans, self._first, strict=True) for batch in plan.largest()]

    def parts(self, batch: np.ndarray) -> list[np.ndarray]:
        """The parts of a batch that are computed separately: one."""
        return [batch]

    @cached_property
    def _first(self) -> list[int]:
        """The number of each plan's first example."""
        return [0, *np.cumsum([len(plan.lengths) for plan in self.plans])[:-1].tolist()]

    def _plan_of(self, batch: np.ndarray) -> int:
        """The place of the plan that a batch is of."""
        return int(np.searchsorted(self._first, batch[0], side="right")) - 1


@dataclass(frozen=True)
class MixedPlan(_SeveralPlans):
    """Batches from several sources: each batch has one source, drawn by weight as a function of (seed, epoch).

    Examples are numbered source after source. An epoch ends when the drawn source has no batch left ("stop when the
    first is exhausted"), so no example occurs twice in it. The remaining examples occur in later epochs, which are
    shuffled again. Without weights, an epoch has every batch of every source, in a random order.

    from_steps: the number of updates before each source joins; None: all of them are drawn from the start.
    """

    plans: Sequence[RampedPlan | StreamPlan]
    weights: Sequence[float] | None
    seed: int
    from_steps: Sequence[int] | None = None

    def epoch(self, epoch: int, first_step: int = 0) -> list[np.ndarray]:
        """The batches of an epoch: arrays of example indices, each example at most once."""
        rng = np.random.default_rng([self.seed, epoch, len(self.plans)])
        if self.weights is None:
            each = [
                batch + first
                for plan, first in zip(self.plans, self._first, strict=True)
                for batch in plan.epoch(epoch)
            ]
            return [each[place] for place in rng.permutation(len(each))]
        left = [iter(plan.epoch(epoch)) for plan in self.plans]
        weights, begins = np.array(self.weights), np.array(self.from_steps or [0] * len(left))
        batches: list[np.ndarray] = []
        while True:
            drawable = np.where(begins <= first_step + len(batches), weights, 0.0)
            source = int(rng.choice(len(left), p=drawable / drawable.sum()))
            drawn = next(left[source], None)
            if drawn is None:
                return batches
            batches.append(drawn + self._first[source])

    def source_of(self, batch: np.ndarray) -> int:
        """The number of a batch's source."""
        return self._plan_of(batch)


@dataclass(frozen=True)
class StagedPlan(_SeveralPlans):
    """Batches of stages that each have examples of their own, numbered stage after stage.

    A stage begins with an epoch: the one before it ends where the stage does.

    begins: the number of updates before each stage, ascending from 0.
    """

    begins: Sequence[int]

    def epoch(self, epoch: int, first_step: int = 0) -> list[np.ndarray]:
        """The batches of an epoch, or as many as its stage has updates left."""
        stage = int(np.searchsorted(self.begins, first_step, side="right")) - 1
        end = None if stage + 1 == len(self.begins) else self.begins[stage + 1] - first_step
        return [batch + self._first[stage] for batch in self.plans[stage].epoch(epoch, first_step)[:end]]

    def source_of(self, batch: np.ndarray) -> int:
        """The number of a batch's source among those of its stage; 0 where there is one."""
        stage = self._plan_of(batch)
        plan = self.plans[stage]
        return plan.source_of(batch - self._first[stage]) if isinstance(plan, MixedPlan) else 0


@dataclass(frozen=True)
class JointPlan:
    """Each batch is a batch of `first` and one of `second`, whose examples are numbered after those of `first`.

    An epoch is one pass over `first`. Each update takes the next batch of `second`, which has epochs of its own. So
    equally many updates see equally much of `second`, whatever the size of `first`.
    """

    first: RampedPlan
    second: RampedPlan
    # The step at which each epoch of the second begins, as far as it is computed.
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
            last = len(self._begins) - 1
            self._begins.append(self._begins[last] + len(self.second.epoch(last, self._begins[last])))
        return self._begins[epoch]

    @property
    def _before(self) -> int:
        """How many examples the first has."""
        return len(self.first.costs)


Plan: TypeAlias = RampedPlan | StreamPlan | MixedPlan | StagedPlan | JointPlan


class Data(Protocol):
    """Training data: the cost of each example [n], by which batches are composed, and batches of examples."""

    @property
    def lengths(self) -> np.ndarray: ...

    def batch(self, indices: np.ndarray, epoch: int) -> Batch: ...


@runtime_checkable
class StagedData(Data, Protocol):
    """Examples that depend on the step. begin: called before the batches of the update after `step` others."""

    def begin(self, step: int) -> None: ...


@runtime_checkable
class ManyRows(Data, Protocol):
    """Examples of several sequences, such as a question with each of its choices. most_rows: of an example."""

    @property
    def most_rows(self) -> int: ...


@runtime_checkable
class DrawnData(Data, Protocol):
    """Examples of which an epoch has those that are drawn; all if there are no draws."""

    @property
    def draws(self) -> LanguageDraws | None: ...


@runtime_checkable
class MixedData(Data, Protocol):
    """Several sources of examples, numbered one after another; each batch has one source, drawn as in `MixedPlan`."""

    @property
    def parts(self) -> Sequence[Data]: ...

    @property
    def weights(self) -> Sequence[float] | None: ...

    @property
    def from_steps(self) -> Sequence[int] | None: ...


@runtime_checkable
class DataInStages(Data, Protocol):
    """Examples of several stages, numbered one after another, with the step and the settings of each stage."""

    @property
    def stages(self) -> Sequence[tuple[int, TrainingSettings, Data]]: ...


@runtime_checkable
class JointData(Data, Protocol):
    """Two sources of examples, numbered one after the other; `second` makes up `second_share` of each global batch.

    The indices passed to `batch` are of one source.
    """

    @property
    def first(self) -> Data: ...

    @property
    def second(self) -> Data: ...

    @property
    def second_share(self) -> float: ...


def batch_plan(
    lengths: np.ndarray,
    settings: TrainingSettings,
    seed: int,
    share: float = 1.0,
    files: BatchFiles | None = None,
    most_rows: int = 1,
    draws: LanguageDraws | None = None,
) -> RampedPlan:
    """The batches of a training, epoch by epoch.

    Args:
        lengths: cost of each example [n].
        settings: sizes of batches.
        seed: the seed of the order.
        share: the share of each batch that these examples make up.
        files: keeps costs and batches of large data sets on disk.
        most_rows: the most sequences of an example.
        draws: which examples an epoch has; None: all.
    """
    changes = [(0, settings.batch_size), *((each.step, each.batch_size) for each in settings.batch_size_schedule)]
    sizes = [(step, max(1, round(share * size))) for step, size in changes]
    costs = lengths if files is None else files.costs(lengths)
    # Sequences are cut at max_length tokens.
    most = settings.max_length * most_rows if settings.batch_unit == "tokens" else None
    return RampedPlan(costs, sizes, most, seed, files, draws)


def _plan_of(
    data: Data, settings: TrainingSettings, seed: int, share: float = 1.0, files: BatchFiles | None = None
) -> RampedPlan:
    draws = data.draws if isinstance(data, DrawnData) else None
    rows = data.most_rows if isinstance(data, ManyRows) else 1
    return batch_plan(data.lengths, settings, seed, share, files, rows, draws)


def data_plan(data: Data, settings: TrainingSettings, seed: int, files: BatchFiles | None = None) -> Plan:
    """The batches of a training on plain, streamed, mixed, joint or staged data.

    files: keeps costs and batches of large data sets on disk.
    """
    if isinstance(data, JointData):
        share, own = data.second_share, int(np.random.SeedSequence([seed, 1]).generate_state(1)[0])
        first = _plan_of(data.first, settings, seed, 1.0 - share, files)
        return JointPlan(first, _plan_of(data.second, settings, own, share, files))
    if isinstance(data, DataInStages):
        of_stages = [data_plan(own, of_stage, seed, files) for _, of_stage, own in data.stages]
        return StagedPlan([_of_stage(plan) for plan in of_stages], [step for step, _, _ in data.stages])
    if isinstance(data, StreamedData):
        return data.plan
    if not isinstance(data, MixedData):
        return _plan_of(data, settings, seed, files=files)
    plans = [
        part.plan if isinstance(part, StreamedData) else _plan_of(part, settings, seed, files=files)
        for part in data.parts
    ]
    return MixedPlan(plans, data.weights, seed, data.from_steps)


def _of_stage(plan: Plan) -> RampedPlan | StreamPlan | MixedPlan:
    if isinstance(plan, JointPlan | StagedPlan):
        raise TypeError("a stage has no other plans within it")
    return plan


def planned_steps(settings: TrainingSettings, lengths: np.ndarray, seed: int, share: float = 1.0) -> int:
    """The number of steps of a training without early stopping.

    lengths: costs of the examples that an epoch passes over, which make up `share` of each batch.
    """
    return steps_of(batch_plan(lengths, settings, seed, share), settings)


def steps_of(plan: Plan, settings: TrainingSettings) -> int:
    """The number of steps of a training by this plan without early stopping."""
    if settings.epochs is None:
        assert settings.max_steps is not None
        return settings.max_steps
    steps = 0
    for epoch in range(settings.epochs):
        steps += len(plan.epoch(epoch, steps))
    return steps if settings.max_steps is None else min(steps, settings.max_steps)


def coming(
    plan: Plan, settings: TrainingSettings, at: tuple[int, int], step: int, count: int
) -> Iterator[tuple[np.ndarray, int]]:
    """The next `count` batches of a training, as far as it goes, as example indices, each with its epoch.

    at: the epoch, and the place in it, of the first of them, which comes after `step` others.
    """
    epoch, position = at
    until = step + count if settings.max_steps is None else min(step + count, settings.max_steps)
    while step < until and epoch != settings.epochs:
        batches = plan.epoch(epoch, step - position)
        for indices in batches[position : position + until - step]:
            yield indices, epoch
        step, epoch, position = step + len(batches) - position, epoch + 1, 0


def is_evaluated(settings: TrainingSettings, step: int, position: int, per_epoch: int) -> bool:
    """Whether the module is evaluated after a step.

    Evaluations are evenly spaced in an epoch and include its end, unless `evaluate_at` lists the steps.

    Args:
        settings: number of evaluations, or their steps.
        step: number of updates.
        position: number of updates of this epoch.
        per_epoch: number of updates of a complete epoch.
    """
    if settings.evaluate_at:
        return step in settings.evaluate_at
    evaluations = settings.evaluations_per_epoch
    return position in {max(1, round(per_epoch * (i + 1) / evaluations)) for i in range(evaluations)}


def dropout_seed(seed: int, step: int, rank: int) -> int:
    """The seed of dropout at a step on a worker."""
    return int(np.random.SeedSequence([seed, step, rank]).generate_state(1, np.uint64)[0] >> 1)
