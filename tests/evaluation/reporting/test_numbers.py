"""Figures as readers see them."""

from __future__ import annotations

import pytest

from subgraft.evaluation.metrics.significance import Interval
from subgraft.evaluation.reporting import numbers


@pytest.mark.parametrize(
    ("value", "written"), [(1.005, "1.00"), (-1.5, "−1.50"), (-0.001, "0.00"), (None, "–"), (31.249, "31.25")]
)
def test_fixed(value: float | None, written: str) -> None:
    assert numbers.fixed(value) == written


@pytest.mark.parametrize(("value", "written"), [(1.234, "+1.23"), (-1.234, "−1.23"), (0.001, "±0.00"), (-0.0, "±0.00")])
def test_signed(value: float, written: str) -> None:
    assert numbers.signed(value) == written


@pytest.mark.parametrize(
    ("seconds", "written"),
    [
        (0, "0.0 s"),
        (8.44, "8.4 s"),
        (59.96, "1 min 00 s"),
        (185, "3 min 05 s"),
        (3599.7, "1 h 00 min"),
        (7620, "2 h 07 min"),
    ],
)
def test_duration(seconds: float, written: str) -> None:
    assert numbers.duration(seconds) == written


def test_the_rest() -> None:
    assert numbers.interval(Interval(-0.5, 2)) == "[−0.50, 2.00]"
    assert (numbers.probability(0.00099), numbers.probability(0.0494)) == ("< 0.001", "0.049")
    assert (numbers.count(1234567), numbers.percent(0.679)) == ("1,234,567", "67.9 %")
    assert (numbers.millions(6_900_512), numbers.millions(612)) == ("6.9 M", "612")
