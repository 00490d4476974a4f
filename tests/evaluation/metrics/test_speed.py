"""Speed: what is timed, and that the figures are sentences per second."""

from __future__ import annotations

import os
import time
from collections.abc import Sequence

import pytest

from subgraft.evaluation.metrics.speed import measure_speed


def test_every_sentence_is_batched_and_warm_up_comes_on_top() -> None:
    seen: list[int] = []
    speed = measure_speed(lambda batch: seen.append(len(batch)), ["a"] * 70, warmup_batches=1, repeats=2)
    assert seen == [32, 32, 32, 6, 32, 32, 6]
    assert (speed.repeats, speed.sentences, speed.batch_size) == (2, 70, 32)


def test_the_first_slow_call_is_not_billed() -> None:
    calls = 0

    def generate(batch: Sequence[str]) -> None:
        nonlocal calls
        calls += 1
        time.sleep(0.5 if calls == 1 else 0.02)

    speed = measure_speed(generate, ["a"] * 8, batch_size=4, repeats=3)
    # Two batches of four in at least 40 ms; a loaded machine only makes it slower.
    assert speed.slowest <= speed.median <= speed.fastest <= 200
    assert speed.fastest > 8 / 0.5


def test_nothing_to_time_is_an_error() -> None:
    with pytest.raises(ValueError, match="at least one sentence"):
        measure_speed(len, [])


def test_the_load_of_the_machine_is_recorded(monkeypatch: pytest.MonkeyPatch) -> None:
    """The greater of before and after; of a system that does not count, none is recorded."""
    loads = iter([(1.5, 0.0, 0.0), (7.25, 0.0, 0.0)])
    monkeypatch.setattr(os, "getloadavg", lambda: next(loads))
    speed = measure_speed(len, ["a"])
    assert speed.load == 7.25 and speed.cores == len(os.sched_getaffinity(0))
    monkeypatch.delattr(os, "getloadavg")
    speed = measure_speed(len, ["a"])
    assert (speed.load, speed.cores) == (None, None)
