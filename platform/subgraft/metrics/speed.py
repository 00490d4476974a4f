"""Sentences per second of anything that turns a batch of sentences into output."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Speed:
    """Sentences per second over repeated passes: the median, the slowest and the fastest."""

    median: float
    slowest: float
    fastest: float
    repeats: int
    sentences: int
    batch_size: int


def measure_speed(
    generate: Callable[[Sequence[str]], object],
    sentences: Sequence[str],
    *,
    batch_size: int = 32,
    warmup_batches: int = 1,
    repeats: int = 3,
) -> Speed:
    """Time `generate` over all batches, `repeats` times, after warming up on the first ones.

    Args:
        generate: turns a batch of sentences into finished output. It must not return before the output is on the
            host: a GPU that is still at work would not be timed.
        sentences: in the order in which they are batched.

    Raises:
        ValueError: there are no sentences, or no repeats.
    """
    if not sentences or repeats < 1:
        raise ValueError("measuring speed takes at least one sentence and one repeat")
    batches = [sentences[start : start + batch_size] for start in range(0, len(sentences), batch_size)]
    for batch in batches[:warmup_batches]:
        generate(batch)
    rates = [len(sentences) / _seconds(generate, batches) for _ in range(repeats)]
    return Speed(statistics.median(rates), min(rates), max(rates), repeats, len(sentences), batch_size)


def _seconds(generate: Callable[[Sequence[str]], object], batches: Sequence[Sequence[str]]) -> float:
    start = time.perf_counter()
    for batch in batches:
        generate(batch)
    return time.perf_counter() - start
