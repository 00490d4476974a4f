"""Krippendorff's alpha on the examples that he computes by hand, and on small ones of our own."""

from __future__ import annotations

import pytest

from subgraft.evaluation.human_evaluation.ratings import Scale, krippendorff_alpha

# Krippendorff 2011, sections B and C: twelve units, four observers, what is missing as a dot.
FOUR = {
    "A": "1 2 3 3 2 1 4 1 2 . . .",
    "B": "1 2 3 3 2 2 4 1 2 5 . 3",
    "C": ". 3 3 3 2 3 4 2 2 5 1 .",
    "D": "1 2 3 3 2 4 4 1 2 5 1 .",
}
# Section A: two observers, two values.
TWO = {"Meg": "0 1 0 0 0 0 0 0 1 0", "Owen": "1 1 1 0 0 1 0 0 0 0"}


def _answers(table: dict[str, str]) -> dict[str, dict[str, int]]:
    return {
        judge: {str(unit): int(value) for unit, value in enumerate(row.split()) if value != "."}
        for judge, row in table.items()
    }


@pytest.mark.parametrize(
    ("table", "scale", "expected"), [(FOUR, "nominal", 0.743), (FOUR, "interval", 0.849), (TWO, "nominal", 0.095)]
)
def test_the_examples_of_krippendorff_2011(table: dict[str, str], scale: Scale, expected: float) -> None:
    assert krippendorff_alpha(_answers(table), scale) == pytest.approx(expected, abs=5e-4)


def test_an_example_by_hand() -> None:
    # Coincidences: (0, 0) twice, (1, 1) twice, (0, 1) and (1, 0) once each; 3 of each value among 6.
    # Observed disagreement 2 / 6, expected 2 · 3 · 3 / (6 · 5): alpha = 1 - (1 / 3) / (3 / 5).
    answers = _answers({"a": "0 1 0", "b": "0 1 1"})
    assert krippendorff_alpha(answers, "nominal") == pytest.approx(1 - 5 / 9)
    assert krippendorff_alpha(_answers({"a": "0 1 0", "b": "0 1 0"}), "nominal") == 1
    assert krippendorff_alpha(_answers({"a": "0 1", "b": "1 0"}), "nominal") == pytest.approx(-0.5)


@pytest.mark.parametrize("table", [{"a": "0 1 0"}, {"a": "0 1 .", "b": ". . 1"}, {"a": "1 1", "b": "1 1"}, {}])
def test_it_is_not_defined_where_nothing_can_disagree(table: dict[str, str]) -> None:
    assert krippendorff_alpha(_answers(table), "nominal") is None
