from __future__ import annotations

import numpy as np

from subgraft.data.text.batches import BatchPlan, cut_by_size, evenly_spaced, share_of_worker

LENGTHS = np.random.default_rng(0).integers(1, 60, size=1000)


def test_an_epoch_holds_each_example_once_within_the_size() -> None:
    batches = BatchPlan(LENGTHS, 400, seed=3).epoch(0)
    assert sorted(np.concatenate(batches).tolist()) == list(range(1000))
    assert all(LENGTHS[batch].max() * len(batch) <= 400 for batch in batches)


def test_order_is_a_function_of_seed_and_epoch() -> None:
    def order(seed: int, epoch: int) -> list[int]:
        result: list[int] = np.concatenate(BatchPlan(LENGTHS, 400, seed).epoch(epoch)).tolist()
        return result

    assert order(1, 0) == order(1, 0)
    assert order(1, 0) != order(1, 1)
    assert order(1, 0) != order(2, 0)


def test_batches_of_similar_lengths_waste_little_padding() -> None:
    batches = BatchPlan(LENGTHS, 400, seed=3).epoch(0)
    padded = sum(int(LENGTHS[batch].max()) * len(batch) for batch in batches)
    assert padded < 1.15 * LENGTHS.sum()


def test_an_example_longer_than_the_size_is_a_batch_of_its_own() -> None:
    lengths = np.array([5, 900, 5])
    batches = [batch.tolist() for batch in cut_by_size(np.arange(3), lengths, 100)]
    assert batches == [[0], [1], [2]]


def test_batches_are_those_of_the_definition() -> None:
    """Composed example by example, as the order that trainings have always had."""
    for seed in range(4):
        generator = np.random.default_rng([seed, 2])
        order = generator.permutation(len(LENGTHS))
        pool = int(50 * 70 / LENGTHS.mean())
        expected: list[list[int]] = []
        for start in range(0, len(order), pool):
            some = order[start : start + pool]
            batch: list[int] = []
            for index in some[np.argsort(LENGTHS[some], kind="stable")].tolist():
                if batch and max(int(LENGTHS[each]) for each in [*batch, index]) * (len(batch) + 1) > 70:
                    expected.append(batch)
                    batch = []
                batch.append(index)
            expected.append(batch)
        result = BatchPlan(LENGTHS, 70, seed).epoch(2)
        assert [batch.tolist() for batch in result] == [expected[at] for at in generator.permutation(len(expected))]
        assert [batch.tolist() for batch in result[3:9]] == [batch.tolist() for batch in list(result)[3:9]]
        assert result[-1].tolist() == list(result)[-1].tolist()


def test_nothing_gives_no_batches() -> None:
    assert list(BatchPlan(np.zeros(0, dtype=np.int64), 70, 1).epoch(0)) == []


def test_workers_share_every_micro_batch_without_overlap() -> None:
    micro = list(cut_by_size(np.arange(1000), LENGTHS, 500))
    parts = [share_of_worker(micro, rank, 3) for rank in range(3)]
    for index, whole in enumerate(micro):
        together = np.concatenate([parts[rank][index] for rank in range(3)])
        assert sorted(together.tolist()) == whole.tolist()


def test_some_of_a_text_are_evenly_spaced() -> None:
    assert list(evenly_spaced(range(10), 3)) == [0, 3, 6]
    assert list(evenly_spaced(range(10), None)) == list(evenly_spaced(range(10), 12)) == list(range(10))
