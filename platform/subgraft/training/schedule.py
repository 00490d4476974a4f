"""The batches and the number of steps of a training, which are functions of its settings and seed.

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
        costs: the costs of the examples [n], as in `BatchPlan`.
        sizes: pairs (step, size), ascending from step 0: the size of batches from that step on.
        max_cost: the maximum cost of an example; None for the size of its batch.
        seed: the seed of the order.
        files: the files from which all workers read the batches of large data sets; None for batches in memory.
        draws: the examples of an epoch; None for all.
    """

    costs: np.ndarray
    sizes: Sequence[tuple[int, int]]
    max_cost: int | None
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
        """The batches of an epoch, as arrays of example indices: every example once, or those that are drawn.

        If the size changes within the epoch, the remaining examples are batched again.
        """
        started_sizes = [size for step, size in self.sizes if step <= first_step]
        batches: Sequence[np.ndarray] = self._epoch(started_sizes[-1], epoch)
        for step, size in self.sizes[len(started_sizes) :]:
            done = batches[: step - first_step]
            if len(done) == len(batches):
                break
            remaining = np.sort(np.concatenate(batches[len(done) :]))
            new_batches = self._plan(size, remaining).epoch(epoch)
            batches = [*done, *(remaining[batch] for batch in new_batches)]
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
        max_cost = self.max_cost or size
        # The array is copied only if a cost exceeds the limit.
        return BatchPlan(
            np.minimum(costs, max_cost) if len(costs) and costs.max() > max_cost else costs, size, self.seed
        )


@dataclass(frozen=True)
class _SeveralPlans:
    """Several plans, whose examples are numbered plan after plan. Each batch comes from one plan."""

    plans: Sequence[RampedPlan | StreamPlan | MixedPlan]

    @cached_property
    def lengths(self) -> np.ndarray:
        return np.concatenate([plan.lengths for plan in self.plans])

    def largest(self) -> list[np.ndarray]:
        """The batches of every plan's first epoch, for choosing the one that needs most memory."""
        return [
            batch + offset
            for plan, offset in zip(self.plans, self._first_examples, strict=True)
            for batch in plan.largest()
        ]

    def parts(self, batch: np.ndarray) -> list[np.ndarray]:
        """The parts of a batch that are computed separately: one."""
        return [batch]

    @cached_property
    def _first_examples(self) -> list[int]:
        """The number of each plan's first example."""
        return [0, *np.cumsum([len(plan.lengths) for plan in self.plans])[:-1].tolist()]

    def _plan_of(self, batch: np.ndarray) -> int:
        """The index of the plan that a batch comes from."""
        return int(np.searchsorted(self._first_examples, batch[0], side="right")) - 1


@dataclass(frozen=True)
class MixedPlan(_SeveralPlans):
    """Batches from several sources. The source of each batch is drawn by weight, as a function of (seed, epoch).

    Examples are numbered source after source. An epoch ends when the drawn source has no batch left ("stop when the
    first is exhausted"), so no example occurs twice in it. The remaining examples occur in later epochs, which are
    shuffled again. Without weights, an epoch has every batch of every source, in a random order.

    from_steps: the number of updates after which each source is drawn; None if all are drawn from the start.
    """

    plans: Sequence[RampedPlan | StreamPlan]
    weights: Sequence[float] | None
    seed: int
    from_steps: Sequence[int] | None = None

    def epoch(self, epoch: int, first_step: int = 0) -> list[np.ndarray]:
        """The batches of an epoch: arrays of example indices, each example at most once."""
        rng = np.random.default_rng([self.seed, epoch, len(self.plans)])
        if self.weights is None:
            batches_of_all = [
                batch + offset
                for plan, offset in zip(self.plans, self._first_examples, strict=True)
                for batch in plan.epoch(epoch)
            ]
            return [batches_of_all[index] for index in rng.permutation(len(batches_of_all))]
        remaining = [iter(plan.epoch(epoch)) for plan in self.plans]
        weights, start_steps = np.array(self.weights), np.array(self.from_steps or [0] * len(remaining))
        batches: list[np.ndarray] = []
        while True:
            available = np.where(start_steps <= first_step + len(batches), weights, 0.0)
            source = int(rng.choice(len(remaining), p=available / available.sum()))
            batch = next(remaining[source], None)
            if batch is None:
                return batches
            batches.append(batch + self._first_examples[source])

    def source_of(self, batch: np.ndarray) -> int:
        """The index of a batch's source."""
        return self._plan_of(batch)


@dataclass(frozen=True)
class StagedPlan(_SeveralPlans):
    """Batches of stages, each with its own examples, which are numbered stage after stage.

    Every stage starts a new epoch; the last epoch of the stage before it ends early.

    start_steps: the number of updates before each stage, ascending from 0.
    """

    start_steps: Sequence[int]

    def epoch(self, epoch: int, first_step: int = 0) -> list[np.ndarray]:
        """The batches of an epoch, up to the end of its stage."""
        stage = int(np.searchsorted(self.start_steps, first_step, side="right")) - 1
        end = None if stage + 1 == len(self.start_steps) else self.start_steps[stage + 1] - first_step
        return [batch + self._first_examples[stage] for batch in self.plans[stage].epoch(epoch, first_step)[:end]]

    def source_of(self, batch: np.ndarray) -> int:
        """The index of a batch's source among the sources of its stage; 0 if there is only one."""
        stage = self._plan_of(batch)
        plan = self.plans[stage]
        return plan.source_of(batch - self._first_examples[stage]) if isinstance(plan, MixedPlan) else 0


@dataclass(frozen=True)
class JointPlan:
    """Each batch joins a batch of `first` and a batch of `second`, whose examples are numbered after those of `first`.

    An epoch is one pass over `first`. Each update takes the next batch of `second`, which has its own epochs. So the
    amount of `second` that is seen depends only on the number of updates, not on the size of `first`.
    """

    first: RampedPlan
    second: RampedPlan
    # The step at which each epoch of `second` starts; computed on demand.
    _epoch_starts: list[int] = field(default_factory=lambda: [0], compare=False, repr=False)

    @cached_property
    def lengths(self) -> np.ndarray:
        return np.concatenate([self.first.lengths, self.second.lengths])

    def largest(self) -> list[np.ndarray]:
        """The batches of both sources' first epochs, for choosing the part that needs most memory.

        Batches are paired as far as possible; the remaining batches of the longer epoch stay unpaired.
        """
        empty = np.zeros(0, dtype=np.int64)
        pairs = zip_longest(self.first.largest(), self.second.largest(), fillvalue=empty)
        return [np.concatenate([first, second + self._first_size]) for first, second in pairs]

    def epoch(self, epoch: int, first_step: int = 0) -> list[np.ndarray]:
        """The batches of an epoch, in which each example of `first` occurs exactly once."""
        return [
            np.concatenate([first, second + self._first_size])
            for first, second in zip(self.first.epoch(epoch, first_step), self._second_from(first_step), strict=False)
        ]

    def parts(self, batch: np.ndarray) -> list[np.ndarray]:
        """The two sources' parts of a batch, which are computed separately to avoid unnecessary padding."""
        is_first = batch < self._first_size
        return [part for part in (batch[is_first], batch[~is_first]) if len(part)]

    def _second_from(self, step: int) -> Iterator[np.ndarray]:
        """An endless iterator over the batches of `second`, starting at an update."""
        epoch = 0
        while self._epoch_start(epoch + 1) <= step:
            epoch += 1
        skipped = step - self._epoch_start(epoch)
        while True:
            yield from self.second.epoch(epoch, self._epoch_start(epoch))[skipped:]
            epoch, skipped = epoch + 1, 0

    def _epoch_start(self, epoch: int) -> int:
        while len(self._epoch_starts) <= epoch:
            last = len(self._epoch_starts) - 1
            self._epoch_starts.append(self._epoch_starts[last] + len(self.second.epoch(last, self._epoch_starts[last])))
        return self._epoch_starts[epoch]

    @property
    def _first_size(self) -> int:
        """The number of examples of `first`."""
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
    """Examples of several sequences, such as a question with each of its choices. most_rows: their maximum number."""

    @property
    def most_rows(self) -> int: ...


@runtime_checkable
class DrawnData(Data, Protocol):
    """Examples of which each epoch has only those that are drawn; without draws it has all of them."""

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
        lengths: the cost of each example [n].
        settings: the sizes of batches.
        seed: the seed of the order.
        share: the share of each batch that these examples make up.
        files: stores the costs and batches of large data sets on disk.
        most_rows: the maximum number of sequences in an example.
        draws: the examples of an epoch; None for all.
    """
    changes = [(0, settings.batch_size), *((each.step, each.batch_size) for each in settings.batch_size_schedule)]
    sizes = [(step, max(1, round(share * size))) for step, size in changes]
    costs = lengths if files is None else files.costs(lengths)
    # Sequences are truncated to max_length tokens.
    max_cost = settings.max_length * most_rows if settings.batch_unit == "tokens" else None
    return RampedPlan(costs, sizes, max_cost, seed, files, draws)


def _plan_of(
    data: Data, settings: TrainingSettings, seed: int, share: float = 1.0, files: BatchFiles | None = None
) -> RampedPlan:
    draws = data.draws if isinstance(data, DrawnData) else None
    rows = data.most_rows if isinstance(data, ManyRows) else 1
    return batch_plan(data.lengths, settings, seed, share, files, rows, draws)


def data_plan(data: Data, settings: TrainingSettings, seed: int, files: BatchFiles | None = None) -> Plan:
    """The batches of a training on plain, streamed, mixed, joint or staged data.

    files: stores the costs and batches of large data sets on disk.
    """
    if isinstance(data, JointData):
        share, second_seed = data.second_share, int(np.random.SeedSequence([seed, 1]).generate_state(1)[0])
        first = _plan_of(data.first, settings, seed, 1.0 - share, files)
        return JointPlan(first, _plan_of(data.second, settings, second_seed, share, files))
    if isinstance(data, DataInStages):
        stage_plans = list[RampedPlan | StreamPlan | MixedPlan]()
        for _, stage_settings, stage_data in data.stages:
            plan = data_plan(stage_data, stage_settings, seed, files)
            if isinstance(plan, JointPlan | StagedPlan):
                raise TypeError("a stage must not contain joint or staged data")
            stage_plans.append(plan)
        return StagedPlan(stage_plans, [step for step, _, _ in data.stages])
    if isinstance(data, StreamedData):
        return data.plan
    if not isinstance(data, MixedData):
        return _plan_of(data, settings, seed, files=files)
    plans = [
        part.plan if isinstance(part, StreamedData) else _plan_of(part, settings, seed, files=files)
        for part in data.parts
    ]
    return MixedPlan(plans, data.weights, seed, data.from_steps)


def planned_steps(settings: TrainingSettings, lengths: np.ndarray, seed: int, share: float = 1.0) -> int:
    """The number of steps of a training without early stopping.

    lengths: the costs of the examples that make up an epoch, and `share` of each batch.
    """
    return steps_of(batch_plan(lengths, settings, seed, share), settings)


def steps_of(plan: Plan, settings: TrainingSettings) -> int:
    """The number of steps of a training with this plan, without early stopping."""
    if settings.epochs is None:
        assert settings.max_steps is not None
        return settings.max_steps
    steps = 0
    for epoch in range(settings.epochs):
        steps += len(plan.epoch(epoch, steps))
    return steps if settings.max_steps is None else min(steps, settings.max_steps)


def upcoming_batches(
    plan: Plan, settings: TrainingSettings, start: tuple[int, int], step: int, count: int
) -> Iterator[tuple[np.ndarray, int]]:
    """The next batches of a training, as example indices, each with its epoch.

    Args:
        plan: the plan of the training.
        settings: the training settings.
        start: the epoch of the first of these batches, and its position in the epoch.
        step: the number of batches before it.
        count: the number of batches; fewer at the end of the training.
    """
    epoch, position = start
    stop = step + count if settings.max_steps is None else min(step + count, settings.max_steps)
    while step < stop and epoch != settings.epochs:
        batches = plan.epoch(epoch, step - position)
        for indices in batches[position : position + stop - step]:
            yield indices, epoch
        step, epoch, position = step + len(batches) - position, epoch + 1, 0


def is_evaluated(settings: TrainingSettings, step: int, position: int, per_epoch: int) -> bool:
    """Whether the module is evaluated after a step.

    Evaluations are evenly spaced in an epoch and include its end, unless `evaluate_at` lists the steps.

    Args:
        settings: the number of evaluations, or their steps.
        step: the number of updates.
        position: the number of updates in this epoch.
        per_epoch: the number of updates in a complete epoch.
    """
    if settings.evaluate_at:
        return step in settings.evaluate_at
    evaluations = settings.evaluations_per_epoch
    return position in {max(1, round(per_epoch * (i + 1) / evaluations)) for i in range(evaluations)}


def dropout_seed(seed: int, step: int, rank: int) -> int:
    """The seed of dropout at a step on a worker."""
    return int(np.random.SeedSequence([seed, step, rank]).generate_state(1, np.uint64)[0] >> 1)
