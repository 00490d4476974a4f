"""The sampling of languages: shares by p^alpha, lines that are repeated, and examples that an epoch draws."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import numpy as np
import pytest
from scipy.stats import chi2

from subgraft.config.training import TrainingSettings
from subgraft.data.text.languages import LanguageDraws, allotted, balanced, repeated, repeated_places, shares
from subgraft.training.schedule import RampedPlan, batch_plan

SIZES = {"en": 70_000, "fr": 20_000, "sw": 9_000, "gd": 676}


@pytest.mark.parametrize("alpha", [0.0, 0.7, 1.0])
def test_shares_are_powers_of_shares(alpha: float) -> None:
    whole = sum(SIZES.values())
    expected = np.array([(size / whole) ** alpha for size in SIZES.values()])
    assert np.allclose(list(shares(SIZES, alpha).values()), expected / expected.sum(), atol=1e-12)


def test_all_and_none() -> None:
    assert set(shares(SIZES, 0.0).values()) == {0.25}
    assert shares(SIZES, 1.0)["en"] == pytest.approx(70_000 / sum(SIZES.values()))
    assert shares({"en": 5, "fr": 0}, 0.0) == {"en": 1.0, "fr": 0.0}
    with pytest.raises(ValueError, match="no language"):
        shares({"en": 0}, 1.0)


@pytest.mark.parametrize("alpha", [0.0, 0.7, 1.0])
def test_parts_of_a_total_add_up(alpha: float) -> None:
    result = allotted(SIZES, alpha, 10_001)
    assert sum(result.values()) == 10_001
    exact = shares(SIZES, alpha)
    assert all(abs(result[name] - exact[name] * 10_001) < 1 for name in SIZES)


def test_a_vocabulary_s_text_holds_each_language_as_often_as_it_counts() -> None:
    sizes = {"en": 90, "gd": 10}
    texts = {
        name: lambda name=name, size=size: iter(f"{name} {at}" for at in range(size)) for name, size in sizes.items()
    }
    result = list(balanced(texts, sizes, 0.0, 60, seed=4))
    english, gaelic = [line for line in result if line[0] == "e"], [line for line in result if line[0] == "g"]
    assert (len(english), len(gaelic)) == (30, 30)
    assert len(set(english)) == 30
    assert all(gaelic.count(line) == 3 for line in set(gaelic))
    assert [int(line.split()[1]) for line in english] == sorted(int(line.split()[1]) for line in english)
    assert result == list(balanced(texts, sizes, 0.0, 60, seed=4)) != list(balanced(texts, sizes, 0.0, 60, seed=5))


def test_where_small_languages_are_oversampled_no_text_is_lost() -> None:
    sizes = {"en": 1000, "de": 100, "gla": 10}
    result = repeated(sizes, 0.7)
    whole, wanted = sum(result.values()), shares(sizes, 0.7)
    assert result["en"] == 1000 and all(result[code] >= size for code, size in sizes.items())
    assert all(result[code] / whole == pytest.approx(wanted[code], abs=1e-3) for code in sizes)
    assert repeated(sizes, 1.0) == sizes
    assert repeated_places(4, 10).tolist() == [0, 1, 2, 3, 0, 1, 2, 3, 0, 2]


LANGUAGES, COUNTS = ("en", "fr", "sw", "gd"), (7000, 2000, 900, 68)


def plan_of(draws: LanguageDraws) -> RampedPlan:
    lengths = [np.random.default_rng(size).integers(5, 40, size) for size in COUNTS]
    settings = TrainingSettings(max_steps=1, batch_size=800, learning_rate=1e-3, warmup_steps=1)
    return batch_plan(draws.numbered(lengths), settings, 3, draws=draws)


def first_instances(draws: LanguageDraws, count: int) -> list[tuple[int, int, int]]:
    """The text, number and epoch of the first instances of a training, in the order of its batches."""
    plan, instances, epoch = plan_of(draws), list[tuple[int, int, int]](), 0
    while len(instances) < count:
        for batch in plan.epoch(epoch):
            instances += [draws.at(int(number), epoch) for number in batch]
        epoch += 1
    return instances[:count]


@pytest.mark.parametrize("alpha", [0.0, 0.3, 0.7, 1.0])
def test_drawn_instances_have_the_probabilities_of_the_paper(alpha: float) -> None:
    """chi^2 of 100,000 instances in batches; 1 is proportional, 0 is uniform."""
    instances = first_instances(LanguageDraws(LANGUAGES, COUNTS, alpha, 1), 100_000)
    observed = np.bincount([text for text, _, _ in instances], minlength=4)
    powers = (np.array(COUNTS) / sum(COUNTS)) ** alpha
    expected = 100_000 * powers / powers.sum()
    assert ((observed - expected) ** 2 / expected).sum() < chi2.ppf(0.999, df=3)
    if alpha in (0.0, 1.0):
        wanted = np.array(COUNTS) / sum(COUNTS) if alpha else np.full(4, 0.25)
        assert np.allclose(observed / 100_000, wanted, atol=5e-3)


def test_no_batches_of_a_part_of_an_epoch_favour_a_language() -> None:
    """The first tenth of an epoch's batches has them in the same proportions."""
    draws = LanguageDraws(LANGUAGES, COUNTS, 0.5, 1)
    batches = plan_of(draws).epoch(0)
    early = [draws.at(int(number), 0).text for batch in batches[: len(batches) // 10] for number in batch]
    powers = np.sqrt(np.array(COUNTS) / sum(COUNTS))
    expected = len(early) * powers / powers.sum()
    # Batches are of equal lengths, which are independent of the language here.
    assert ((np.bincount(early, minlength=4) - expected) ** 2 / expected).sum() < chi2.ppf(0.9999, df=3)


def test_an_epoch_has_every_example_and_no_instance_twice() -> None:
    draws = LanguageDraws(LANGUAGES, COUNTS, 0.7, 1)
    of_epochs = [[draws.at(int(number), epoch) for number in draws.epoch(epoch)] for epoch in range(3)]
    for instances in of_epochs:
        assert {(text, index) for text, index, _ in instances} == {
            (t, i) for t, n in enumerate(COUNTS) for i in range(n)
        }
        assert len(set(instances)) == len(instances)
    assert not set(of_epochs[0]) & set(of_epochs[1]), "noise is a function of an example's own epoch"


def test_what_comes_once_more_than_others_changes_with_the_epoch() -> None:
    draws = LanguageDraws(("en", "gd"), (100, 60), 0.0, 1)

    def twice(epoch: int) -> set[int]:
        times = Counter(draws.at(int(number), epoch).place for number in draws.epoch(epoch) if number >= 100)
        return {index for index, count in times.items() if count == 2}

    assert len(twice(0)) == len(twice(1)) == 40 and twice(0) != twice(1)


def test_texts_of_one_language_share_its_probability() -> None:
    draws = LanguageDraws(("en", "fr", "fr"), (1000, 30, 10), 0.0, 1)
    counts = np.bincount([draws.at(int(number), 0).text for number in draws.epoch(0)])
    assert counts.tolist() == [1000, 750, 250]


def test_where_all_is_proportional_an_epoch_is_one_pass() -> None:
    draws = LanguageDraws(LANGUAGES, COUNTS, 1.0, 1)
    assert draws.epoch(5).tolist() == list(range(sum(COUNTS))) and len(draws) == sum(COUNTS)


@pytest.mark.parametrize("first_step", [0, 7])
def test_a_resumed_epoch_has_the_same_batches(first_step: int) -> None:
    def batches() -> Sequence[list[int]]:
        plan = plan_of(LanguageDraws(LANGUAGES, COUNTS, 0.3, 1))
        return [batch.tolist() for batch in plan.epoch(2, first_step)]

    assert batches() == batches()
