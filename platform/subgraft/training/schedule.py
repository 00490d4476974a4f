"""The steps of a training as functions of its settings and seed: batches, evaluations, seeds of dropout."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Protocol, TypeAlias, runtime_checkable

import numpy as np

from subgraft.config.training import TrainingSettings
from subgraft.data.text.batches import BatchFiles
from subgraft.training.batch_plans import JointPlan, MixedPlan, RampedPlan

if TYPE_CHECKING:
    from subgraft.training.engine import Batch


class Data(Protocol):
    """Training data: the cost of each example [n], by which batches are composed, and batches of examples."""

    @property
    def lengths(self) -> np.ndarray: ...

    def batch(self, indices: np.ndarray, epoch: int) -> Batch: ...


Plan: TypeAlias = RampedPlan | MixedPlan | JointPlan


@runtime_checkable
class MixedData(Data, Protocol):
    """Several sources of examples, numbered one after another; each batch has one source."""

    @property
    def parts(self) -> Sequence[Data]: ...

    @property
    def weights(self) -> Sequence[float]: ...


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
    lengths: np.ndarray, settings: TrainingSettings, seed: int, share: float = 1.0, files: BatchFiles | None = None
) -> RampedPlan:
    """The batches of a training, epoch by epoch.

    Args:
        lengths: cost of each example [n].
        settings: sizes of batches.
        seed: the seed of the order.
        share: the share of each batch that these examples make up.
        files: keeps costs and batches of large data sets on disk.
    """
    changes = [(0, settings.batch_size), *((each.step, each.batch_size) for each in settings.batch_size_schedule)]
    sizes = [(step, max(1, round(share * size))) for step, size in changes]
    costs = lengths if files is None else files.costs(lengths)
    # Sequences are cut at max_length tokens.
    return RampedPlan(costs, sizes, settings.max_length if settings.batch_unit == "tokens" else None, seed, files)


def data_plan(data: Data, settings: TrainingSettings, seed: int, files: BatchFiles | None = None) -> Plan:
    """The batches of a training on plain, mixed or joint data.

    files: keeps costs and batches of large data sets on disk.
    """
    if isinstance(data, JointData):
        share, own = data.second_share, int(np.random.SeedSequence([seed, 1]).generate_state(1)[0])
        first = batch_plan(data.first.lengths, settings, seed, 1.0 - share, files)
        return JointPlan(first, batch_plan(data.second.lengths, settings, own, share, files))
    if not isinstance(data, MixedData):
        return batch_plan(data.lengths, settings, seed, files=files)
    plans = [batch_plan(part.lengths, settings, seed, files=files) for part in data.parts]
    return MixedPlan(plans, data.weights, seed)


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
