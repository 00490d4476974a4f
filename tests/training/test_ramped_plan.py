from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from subgraft.config.training import BatchSizeFrom, TrainingSettings
from subgraft.data.text.batches import BatchPlan
from subgraft.training.schedule import RampedPlan, batch_plan, planned_steps

COSTS = np.random.default_rng(0).integers(1, 30, size=200)
SIZES = [(0, 60), (7, 200), (30, 400)]


def whole(sizes: list[tuple[int, int]], epochs: int) -> tuple[list[Sequence[np.ndarray]], list[int]]:
    """Batches by epoch, one epoch after the other, and each epoch's first step."""
    plan, first, planned, firsts = RampedPlan(COSTS, sizes, None, 5), 0, [], []
    for epoch in range(epochs):
        planned.append(plan.epoch(epoch, first))
        firsts.append(first)
        first += len(planned[-1])
    return planned, firsts


def test_one_size_is_the_plain_plan() -> None:
    plain = BatchPlan(np.minimum(COSTS, 25), 60, 5)
    for epoch in range(3):
        ours = RampedPlan(COSTS, [(0, 60)], 25, 5).epoch(epoch, 1000 * epoch)
        assert [batch.tolist() for batch in ours] == [batch.tolist() for batch in plain.epoch(epoch)]


def test_each_size_holds_from_its_step_on_and_none_before() -> None:
    epochs, _ = whole(SIZES, 6)
    taken = [int(COSTS[batch].max()) * len(batch) for epoch in epochs for batch in epoch]
    assert max(taken[:7]) <= 60 < np.median(taken[7:30]) <= max(taken[7:30]) <= 200
    assert 200 < max(taken[30:]) <= 400


def test_every_epoch_still_has_each_example_once() -> None:
    for epoch in whole(SIZES, 6)[0]:
        assert sorted(np.concatenate(epoch).tolist()) == list(range(len(COSTS)))


def test_batches_before_a_boundary_are_those_of_a_plan_without_it() -> None:
    ramped, plain = whole(SIZES, 1)[0][0], whole([(0, 60)], 1)[0][0]
    assert [batch.tolist() for batch in ramped[:7]] == [batch.tolist() for batch in plain[:7]]


def test_steps_are_planned_as_they_are_taken() -> None:
    settings = TrainingSettings(
        epochs=5,
        batch_size=60,
        batch_size_schedule=(BatchSizeFrom(step=7, batch_size=200), BatchSizeFrom(step=30, batch_size=400)),
        learning_rate=0.1,
        warmup_steps=1,
    )
    epochs, _ = whole(SIZES, 5)
    assert planned_steps(settings, COSTS, 5) == sum(map(len, epochs))
    first = batch_plan(COSTS, settings, 5).epoch(0, 0)
    assert [batch.tolist() for batch in first] == [batch.tolist() for batch in epochs[0]]


def test_memory_is_tried_with_the_largest_size() -> None:
    plan = RampedPlan(COSTS, SIZES, None, 5)
    taken = [int(COSTS[batch].max()) * len(batch) for batch in plan.largest()]
    assert 200 < max(taken) <= 400
