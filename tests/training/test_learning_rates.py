"""Schedules against their closed forms, step by step."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import get_args

import pytest

from subgraft.config.training import ScheduleName, TrainingSettings
from subgraft.training.optimizers import SCHEDULES, ScheduleLength, learning_rate

PEAK, WARMUP, TOTAL, WIDTH = 0.3, 10, 50, 64
LENGTH = ScheduleLength(WARMUP, TOTAL, WIDTH)
AFTER: dict[ScheduleName, Callable[[int], float]] = {
    "inverse-square-root": lambda step: math.sqrt(WARMUP) / math.sqrt(step),
    "linear": lambda step: (51 - step) / 41,
    "cosine": lambda step: math.cos(math.pi / 2 * (step - 10) / 41) ** 2,
    "constant": lambda step: 1.0,
}


def rates(schedule: ScheduleName) -> list[float]:
    settings = TrainingSettings(
        max_steps=TOTAL, batch_size=9, learning_rate=PEAK, warmup_steps=WARMUP, schedule=schedule
    )
    return [learning_rate(settings, step, LENGTH) for step in range(1, TOTAL + 1)]


def test_the_table_and_the_settings_have_the_same_names() -> None:
    assert set(get_args(ScheduleName)) == set(SCHEDULES) == {*AFTER, "noam"}


@pytest.mark.parametrize("schedule", AFTER)
def test_a_schedule_warms_up_to_the_peak_and_goes_on_as_its_formula_says(schedule: ScheduleName) -> None:
    planned = rates(schedule)
    assert planned[:WARMUP] == pytest.approx([PEAK * step / WARMUP for step in range(1, WARMUP + 1)])
    assert planned[WARMUP:] == pytest.approx([PEAK * AFTER[schedule](step) for step in range(WARMUP + 1, TOTAL + 1)])


@pytest.mark.parametrize("schedule", ["linear", "cosine"])
def test_a_bounded_schedule_still_learns_in_its_last_step_and_would_not_after_it(schedule: ScheduleName) -> None:
    settings = TrainingSettings(max_steps=TOTAL, batch_size=9, learning_rate=PEAK, warmup_steps=10, schedule=schedule)
    assert 0 < rates(schedule)[-1] < 0.03 * PEAK
    assert learning_rate(settings, TOTAL + 1, LENGTH) == pytest.approx(0, abs=1e-12)


def test_noam_is_the_published_formula_whose_peak_the_width_decides() -> None:
    expected = [PEAK * WIDTH**-0.5 * min(step**-0.5, step * WARMUP**-1.5) for step in range(1, TOTAL + 1)]
    assert rates("noam") == pytest.approx(expected)
    assert max(rates("noam")) == pytest.approx(PEAK / math.sqrt(WIDTH * WARMUP))


@pytest.mark.parametrize("schedule", get_args(ScheduleName))
def test_one_step_of_warm_up_is_none_and_a_warm_up_beyond_the_end_is_all(schedule: ScheduleName) -> None:
    at_once, never = (
        TrainingSettings(max_steps=5, batch_size=9, learning_rate=1.0, warmup_steps=warmup, schedule=schedule)
        for warmup in (1, 100)
    )
    assert learning_rate(at_once, 1, ScheduleLength(1, 5, 1)) == pytest.approx(1.0)
    rising = [learning_rate(never, step, ScheduleLength(100, 5, 1)) for step in range(1, 6)]
    assert rising == sorted(rising) and rising[0] > 0 and rising[-1] <= 0.05 + 1e-12
