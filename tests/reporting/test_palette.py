"""Every row is drawn in one way, and no two rows in the same."""

from __future__ import annotations

from subgraft.reporting.palette import BASELINE_COLOUR, looks


def test_rows_are_told_apart_and_the_baseline_is_grey() -> None:
    names = ["old", *(f"row{index}" for index in range(20))]
    drawn = looks(names, "old")
    assert list(drawn) == names
    assert drawn["old"].colour == BASELINE_COLOUR
    assert len(set(drawn.values())) == len(names)
    assert all(look.colour != BASELINE_COLOUR for name, look in drawn.items() if name != "old")


def test_a_baseline_that_is_not_among_the_rows_is_not_drawn() -> None:
    assert list(looks(["a", "b"], "old")) == ["a", "b"]
    assert list(looks(["a"], None)) == ["a"]
