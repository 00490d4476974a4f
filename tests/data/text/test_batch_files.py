"""Batches in files are those in memory, composed once for all who ask."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from subgraft.config.training import TrainingSettings
from subgraft.data.text import batches
from subgraft.data.text.batches import Batches, BatchFiles, BatchPlan, compose
from subgraft.training.schedule import JointPlan, MixedPlan, RampedPlan, batch_plan

LENGTHS = np.random.default_rng(0).integers(1, 60, size=5000)


def test_they_are_the_same_batches(tmp_path: Path) -> None:
    files = BatchFiles(tmp_path / "batches", min_examples=1)
    for plan in (BatchPlan(LENGTHS, 400, seed=3), BatchPlan(LENGTHS[:9], 400, seed=3), BatchPlan(LENGTHS, 40, seed=4)):
        for epoch in range(3):
            expected, result = plan.epoch(epoch), files.epoch(plan, epoch)
            assert [batch.tolist() for batch in result] == [batch.tolist() for batch in expected]
            assert {batch.dtype for batch in result} == {batch.dtype for batch in expected}
    assert len(list(tmp_path.glob("batches/*/order.bin"))) == 9


def test_the_order_is_what_numpys_permutation_gives() -> None:
    """`permutation` is what trainings of before were composed by."""
    generator = np.random.default_rng([3, 1])
    expected = generator.permutation(len(LENGTHS))
    one_pool = BatchPlan(np.ones(len(LENGTHS), dtype=np.int64), len(LENGTHS), seed=3).epoch(1)
    assert one_pool[0].tolist() == expected.tolist()


def test_they_are_composed_once_and_take_four_bytes_an_example(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    composed = list[int]()

    def counted(plan: BatchPlan, epoch: int, order: np.ndarray) -> Batches:
        composed.append(epoch)
        return compose(plan, epoch, order)

    monkeypatch.setattr(batches, "compose", counted)
    plan = BatchPlan(LENGTHS, 400, seed=3)
    for _ in range(3):
        made = BatchFiles(tmp_path, min_examples=1).epoch(plan, 2)
    assert composed == [2]
    size = sum(path.stat().st_size for path in tmp_path.rglob("*.bin"))
    assert size == 4 * len(LENGTHS) + 16 * len(made)
    BatchFiles(tmp_path, min_examples=1).epoch(BatchPlan(LENGTHS[::-1], 400, seed=3), 2)
    assert composed == [2, 2], "of other lengths there are other batches"


def test_what_examples_cost_is_written_once_and_mapped(tmp_path: Path) -> None:
    files = BatchFiles(tmp_path, min_examples=1)
    settings = TrainingSettings(epochs=1, batch_size=300, learning_rate=0.1, warmup_steps=1, max_length=64)
    for costs in (LENGTHS, LENGTHS.astype(np.int32), LENGTHS[::-1]):
        for _ in range(2):
            plan = batch_plan(costs, settings, seed=1, files=files)
            assert plan.costs.dtype == costs.dtype and plan.costs.tolist() == costs.tolist()
            assert not plan.costs.flags.owndata and plan.costs.base is not costs
    assert len(list(tmp_path.glob("*/costs.bin"))) == 3
    assert BatchFiles(tmp_path, min_examples=len(LENGTHS) + 1).costs(LENGTHS) is LENGTHS


def test_what_is_damaged_is_composed_again(tmp_path: Path) -> None:
    plan, files = BatchPlan(LENGTHS, 400, seed=3), BatchFiles(tmp_path, min_examples=1)
    files.epoch(plan, 0)
    (order,) = tmp_path.rglob("order.bin")
    order.write_bytes(bytes(order.stat().st_size))
    assert [batch.tolist() for batch in files.epoch(plan, 0)] == [batch.tolist() for batch in plan.epoch(0)]


def test_few_examples_stay_in_memory(tmp_path: Path) -> None:
    BatchFiles(tmp_path / "batches").epoch(BatchPlan(LENGTHS, 400, seed=3), 0)
    assert not (tmp_path / "batches").exists()


def test_every_kind_of_plan_is_as_without_files(tmp_path: Path) -> None:
    def plans(files: BatchFiles | None) -> list[RampedPlan | MixedPlan | JointPlan]:
        plain = RampedPlan(LENGTHS, [(0, 300)], None, 1, files)
        ramped = RampedPlan(LENGTHS, [(0, 300), (40, 900)], 50, 2, files)
        return [plain, ramped, MixedPlan([plain, ramped], [1.0, 2.0], 3), JointPlan(plain, ramped)]

    for without, result in zip(plans(None), plans(BatchFiles(tmp_path, min_examples=1)), strict=True):
        for epoch, step in ((0, 0), (1, 900)):
            expected = [batch.tolist() for batch in without.epoch(epoch, step)]
            assert [batch.tolist() for batch in result.epoch(epoch, step)] == expected
        assert [batch.tolist() for batch in result.largest()] == [batch.tolist() for batch in without.largest()]
