"""Batches of two sources: each takes its share, and the second's go on from update to update."""

from __future__ import annotations

from itertools import chain

import numpy as np
import pytest

from subgraft.config.training import BatchSizeFrom, FinetuneSettings
from subgraft.training.schedule import Data, JointPlan, data_plan, planned_steps, steps_of

PAIRS = np.random.default_rng(0).integers(1, 30, size=90)
TEXT = np.random.default_rng(1).integers(1, 30, size=400)


class Costs:
    """Examples of these costs."""

    def __init__(self, lengths: np.ndarray) -> None:
        self.lengths = lengths

    def batch(self, indices: np.ndarray, epoch: int) -> object:
        raise AssertionError("only planned")


class Both(Costs):
    def __init__(self, first: np.ndarray, second: np.ndarray, share: float) -> None:
        super().__init__(np.concatenate([first, second]))
        self.first: Data
        self.second: Data
        self.first, self.second, self.second_share = Costs(first), Costs(second), share  # type: ignore[assignment]


def settings(**changes: object) -> FinetuneSettings:
    defaults = {"epochs": 4, "batch_size": 240, "learning_rate": 0.1, "warmup_steps": 1}
    return FinetuneSettings(**(defaults | changes))  # type: ignore[arg-type]


def plan(share: float = 0.5, first: np.ndarray = PAIRS, second: np.ndarray = TEXT, **changes: object) -> JointPlan:
    made = data_plan(Both(first, second, share), settings(**changes), 5)  # type: ignore[arg-type]
    assert isinstance(made, JointPlan)
    return made


def epochs(joint: JointPlan, count: int) -> list[list[np.ndarray]]:
    planned: list[list[np.ndarray]] = []
    for epoch in range(count):
        planned.append(joint.epoch(epoch, sum(map(len, planned))))
    return planned


def sides(batches: list[np.ndarray]) -> tuple[list[list[int]], list[list[int]]]:
    """Of each batch, the examples of the first source and of the second, these from 0."""
    first = [batch[batch < len(PAIRS)].tolist() for batch in batches]
    return first, [(batch[batch >= len(PAIRS)] - len(PAIRS)).tolist() for batch in batches]


@pytest.mark.parametrize("share", [0.25, 0.5, 0.8])
def test_each_batch_has_its_share_of_both(share: float) -> None:
    first, second = sides(list(chain(*epochs(plan(share), 4))))
    for pairs, text in zip(first, second, strict=True):
        assert 0 < int(PAIRS[pairs].max()) * len(pairs) <= max(30, round((1 - share) * 240))
        assert 0 < int(TEXT[text].max()) * len(text) <= max(30, round(share * 240))


def test_an_epoch_is_one_over_the_pairs_and_the_text_goes_on_until_it_is_used_up() -> None:
    planned = epochs(plan(), 12)
    for epoch in planned:
        assert sorted(chain(*sides(epoch)[0])) == list(range(len(PAIRS)))
    text = list(chain(*sides(list(chain(*planned)))[1]))
    assert len(text) > 2 * len(TEXT)
    for begins in (0, len(TEXT)):
        assert sorted(text[begins : begins + len(TEXT)]) == list(range(len(TEXT)))
    assert text[: len(TEXT)] != text[len(TEXT) : 2 * len(TEXT)]


def test_the_order_of_the_pairs_does_not_depend_on_the_text() -> None:
    other = np.full(33, 7)
    ours, theirs = (sides(list(chain(*epochs(each, 3))))[0] for each in (plan(), plan(second=other)))
    assert ours == theirs


def test_an_epoch_is_a_function_of_its_number_and_its_first_step() -> None:
    """A plan that is asked for a late epoch at once says what one says that went through all of them."""
    planned = epochs(plan(), 9)
    again = plan().epoch(8, sum(map(len, planned[:8])))
    assert [batch.tolist() for batch in again] == [batch.tolist() for batch in planned[8]]


def test_both_shares_grow_with_a_schedule() -> None:
    grown = plan(batch_size_schedule=(BatchSizeFrom(step=6, batch_size=480),))
    first, second = sides(list(chain(*epochs(grown, 6))))
    cost = [int(PAIRS[pairs].max()) * len(pairs) for pairs in first]
    cost_of_text = [int(TEXT[text].max()) * len(text) for text in second]
    assert max(cost[:6]) <= 120 < max(cost[6:]) <= 240
    assert max(cost_of_text[:6]) <= 120 < max(cost_of_text[6:]) <= 240
    assert sorted(chain(*sides(epochs(grown, 1)[0])[0])) == list(range(len(PAIRS)))


def test_steps_are_planned_as_they_are_taken() -> None:
    joint, chosen = plan(), settings()
    assert steps_of(joint, chosen) == sum(map(len, epochs(joint, 4))) == planned_steps(chosen, PAIRS, 5, share=0.5)


def test_the_parts_of_a_batch_are_its_sources() -> None:
    joint = plan()
    for batch in joint.epoch(0):
        pairs, text = joint.parts(batch)
        assert pairs.max() < len(PAIRS) <= text.min()
        assert np.concatenate([pairs, text]).tolist() == batch.tolist()
    tried = [part for batch in joint.largest() for part in joint.parts(batch)]
    assert len(np.concatenate(tried)) == len(PAIRS) + len(TEXT)


def test_a_share_that_leaves_no_batch_is_refused() -> None:
    with pytest.raises(ValueError, match=r"monolingual_fraction 0\.99: a batch of 40 cannot hold both"):
        settings(batch_size=40, monolingual_fraction=0.99)
