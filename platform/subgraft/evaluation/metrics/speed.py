"""Sentences per second of a function that turns a batch of sentences into output."""

from __future__ import annotations

import os
import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeVar

T = TypeVar("T")


@dataclass(frozen=True)
class Speed:
    """Sentences per second over repeated passes: the median, the slowest and the fastest.

    load: the larger load average of the last minute, before or after, with this process; None if the system has none.
    cores: that this process may use. A load above the cores means that other processes slowed the model.
    """

    median: float
    slowest: float
    fastest: float
    repeats: int
    sentences: int
    batch_size: int
    load: float | None = None
    cores: int | None = None


def measure_speed(
    generate: Callable[[Sequence[T]], object],
    sentences: Sequence[T],
    *,
    batch_size: int = 32,
    warmup_batches: int = 1,
    repeats: int = 3,
) -> Speed:
    """Time `generate` over all batches, `repeats` times, after warming up on the first ones.

    Args:
        generate: turns a batch of sentences into finished output. It must not return before the output is on the
            host: a GPU that is still at work would not be timed.
        sentences: in the order in which they are batched; of any type.

    Raises:
        ValueError: there are no sentences, or no repeats.
    """
    if not len(sentences) or repeats < 1:
        raise ValueError("measuring speed takes at least one sentence and one repeat")
    batches = [sentences[start : start + batch_size] for start in range(0, len(sentences), batch_size)]
    for batch in batches[:warmup_batches]:
        generate(batch)
    before = load_average()
    rates = [len(sentences) / _seconds(generate, batches) for _ in range(repeats)]
    loads = [load for load in (before, load_average()) if load is not None]
    return Speed(
        statistics.median(rates),
        min(rates),
        max(rates),
        repeats,
        len(sentences),
        batch_size,
        max(loads, default=None),
        usable_cores() if loads else None,
    )


def speed_of_pass(sentences: int, seconds: float, batch_size: int) -> Speed:
    """The speed of one pass that was run for its output; the load is that of its last minute."""
    rate, load = sentences / max(seconds, 1e-9), load_average()
    return Speed(rate, rate, rate, 1, sentences, batch_size, load, None if load is None else usable_cores())


def load_average() -> float | None:
    """How many processes and threads wanted to run over the last minute; None where the system does not count them."""
    try:
        return round(os.getloadavg()[0], 2)
    except (AttributeError, OSError):
        return None


def usable_cores() -> int | None:
    """The cores that this process may use."""
    try:
        return len(os.sched_getaffinity(0))
    except AttributeError:  # on other systems than Linux
        return os.cpu_count()


def _seconds(generate: Callable[[Sequence[T]], object], batches: Sequence[Sequence[T]]) -> float:
    start = time.perf_counter()
    for batch in batches:
        generate(batch)
    return time.perf_counter() - start
