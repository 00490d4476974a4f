"""A fit's estimate of its time, also on a busy machine."""

from __future__ import annotations

import time

from subgraft.experiments.fit.duration import BUSY, Duration, Stopwatch

HOUR = 3600.0


def test_on_an_idle_machine_no_slowdown_is_reported() -> None:
    assert Duration(0.2 * HOUR).describe(6, 2, quick=False) == [
        "6 trainings for about 12 min 00 s, and then translations of the test set"
    ]


def test_a_busy_machine_is_reported_with_what_an_idle_one_takes_and_a_smaller_budget() -> None:
    first, busy, less = Duration(0.9 * HOUR, slowdown=3.0).describe(6, 2, quick=False)
    assert "54 min 00 s" in first
    assert "the machine is busy (load " in busy and "on 2 cores" in busy and "3.0 times slower" in busy
    assert busy.endswith("about 18 min 00 s")
    assert "a quick fit" in less and less.endswith("about 9 min 00 s"), "one of three seeds, half the updates"
    *_, less = Duration(0.9 * HOUR, slowdown=3.0).describe(2, 2, quick=True)
    assert "finetune.max_steps" in less and "quick" not in less


def test_a_long_fit_offers_a_smaller_budget_too() -> None:
    assert len(Duration(2 * HOUR).describe(6, 2, quick=False)) == 2


def test_a_thread_that_has_to_wait_is_slowed() -> None:
    watch = Stopwatch()
    time.sleep(0.2)
    result = watch.read()
    assert result.seconds >= 0.2 and result.slowdown >= BUSY
