"""A handful of systems look different from one another; of many, those that are asked for stand out."""

from __future__ import annotations

from subgraft.evaluation.reporting.drawing import BASELINE_COLOUR, MOST_COLOURED, OTHER_COLOUR, looks


def luminance(colour: str) -> float:
    """Relative luminance by WCAG 2: the lightness of a colour in print."""
    shares = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    linear = [share / 12.92 if share <= 0.04045 else ((share + 0.055) / 1.055) ** 2.4 for share in shares]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def test_a_handful_of_systems_differ_in_colour_and_in_mark() -> None:
    names = ["old", *(f"system{index}" for index in range(MOST_COLOURED))]
    drawn = looks(names, "old")
    assert list(drawn) == names
    assert drawn["old"].colour == BASELINE_COLOUR
    assert len({look.colour for look in drawn.values()}) == len({look.marker for look in drawn.values()}) == len(names)
    assert all(look.stands_out for look in drawn.values())


def test_of_many_systems_those_that_are_highlighted_stand_out() -> None:
    names = [f"system{index}" for index in range(20)] + ["old"]
    drawn = looks(names, "old", ["system7", "system19"])
    assert [name for name, look in drawn.items() if look.stands_out] == ["system7", "system19", "old"]
    assert drawn["system7"].colour != drawn["system19"].colour
    assert {drawn[name].colour for name in names if name not in ("system7", "system19", "old")} == {OTHER_COLOUR}


def test_what_stands_behind_is_paler_than_all_that_stands_out() -> None:
    drawn = looks([str(index) for index in range(MOST_COLOURED)], None)
    brightest = max(luminance(look.colour) for look in drawn.values())
    assert luminance(BASELINE_COLOUR) < brightest < luminance(OTHER_COLOUR)


def test_a_baseline_that_is_not_among_the_systems_is_not_drawn() -> None:
    assert list(looks(["a", "b"], "old")) == ["a", "b"]
    assert list(looks(["a"], None)) == ["a"]
