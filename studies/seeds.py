"""Statistics over the seeds of a study: groups of runs, spreads and confidence bands."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from math import sqrt
from statistics import fmean, stdev
from typing import TypeVar

from scipy.stats import t

R = TypeVar("R")


def grouped(runs: Iterable[R], name: Callable[[R], str]) -> dict[str, list[R]]:
    """Runs by what they are called, in their order."""
    groups: dict[str, list[R]] = {}
    for run in runs:
        groups.setdefault(name(run), []).append(run)
    return groups


def spread(values: Sequence[float]) -> str:
    """The mean, and how far the seeds lie around it."""
    digits = 3 if max(values) < 20 else 1
    around = (max(values) - min(values)) / 2
    return f"{fmean(values):.{digits}f}" + (f" ± {around:.{digits}f}" if len(values) > 1 else "")


def mean_with_band(values: Sequence[float]) -> str:
    """The mean, and the half width of its band if there are several values."""
    mean, reach = band(values)
    return f"{mean:.1f}" if reach != reach else f"{mean:.1f} ± {reach:.1f}"


def band(values: Sequence[float]) -> tuple[float, float]:
    """The mean, and how far Student's 95 % interval goes to either side: no number for a single value."""
    if len(values) < 2:
        return fmean(values), float("nan")
    return fmean(values), float(t.ppf(0.975, len(values) - 1)) * stdev(values) / sqrt(len(values))
