"""The page of a search: what is best, and that every trial is there."""

from __future__ import annotations

import re
from dataclasses import replace

from subgraft.evaluation.reporting.drawing import ResponsivePng
from subgraft.evaluation.reporting.records import Command
from subgraft.experiments.search.page import build_document, render
from subgraft.experiments.search.trial_results import SearchData, TrialResult, Value, best, ordered

OBJECTIVES = ("dev_bleu", "sentences_per_second")


def trial(number: int, bleu: float, speed: float, kind: str = "patt") -> TrialResult:
    values: dict[str, Value] = {"initialiser": kind, "vocabulary_size": 1000 * number}
    if kind == "patt":
        values["kd_weight"] = 0.25
    reached = {"dev_bleu": bleu, "sentences_per_second": speed}
    return TrialResult(number, values, "finished", reached, ((1, bleu / 2),), 12.5, {"finetune": 10.0}, 7)


TRIALS = (
    trial(1, 20.25, 50.0),
    trial(2, 18.5, 60.0, "avg"),
    trial(3, 18.0, 55.0),
    replace(trial(4, 0, 0), state="stopped", objectives={}, curve=((1, 2.0),)),
    TrialResult(5, {"initialiser": "avg", "vocabulary_size": 90000}, "refused", said="too large\n  less"),
)
DATA = SearchData(
    name="itdocs",
    languages=("en", "fr"),
    parameters=("initialiser", "kd_weight", "vocabulary_size"),
    objectives=OBJECTIVES,
    planned=6,
    trials=TRIALS,
    importance={name: {"initialiser": 0.75, "vocabulary_size": 0.25} for name in OBJECTIVES},
    systems="systems:\n  - {name: trial-1}\n",
    commands=(Command("MLflow's page", "subgraft tracking"),),
    generated=False,
)


def numbers(trials: tuple[TrialResult, ...]) -> list[int]:
    return [each.number for each in trials]


def test_the_best_are_those_that_no_other_beats() -> None:
    assert numbers(best(TRIALS, OBJECTIVES)) == [1, 2]
    assert numbers(best(TRIALS, OBJECTIVES[:1])) == [1]
    assert numbers(best(TRIALS, OBJECTIVES[1:])) == [2]
    assert best(TRIALS[3:], OBJECTIVES) == ()


def test_of_equal_trials_the_first_is_among_the_best() -> None:
    assert numbers(best((trial(2, 20.0, 50.0), trial(1, 20.0, 50.0), trial(3, 19.0, 50.0)), OBJECTIVES)) == [1]


def test_the_best_trials_come_first_and_those_without_a_score_last() -> None:
    assert numbers(tuple(ordered(TRIALS[::-1], OBJECTIVES))) == [1, 2, 3, 5, 4]
    assert numbers(tuple(ordered(TRIALS, OBJECTIVES[1:]))) == [2, 3, 1, 4, 5]
    bits = [replace(trial(n, 0, 0), objectives={"dev_bits_per_character": value}) for n, value in ((1, 2.0), (2, 1.5))]
    assert numbers(tuple(ordered(bits, ("dev_bits_per_character",)))) == [2, 1], "fewer bits are better"


def test_plots_have_a_form_for_narrow_screens() -> None:
    figures = build_document(DATA).figures
    assert figures and all(isinstance(figure.png, ResponsivePng) for figure in figures)


def test_values_of_trials_are_escaped() -> None:
    bad = "<script>alert(1)</script>"
    page = render(replace(DATA, name=bad, trials=(replace(TRIALS[4], values={"initialiser": bad}, said=bad),)))
    assert bad not in page and page.count("&lt;script&gt;") >= 3


def test_the_page_has_every_trial_with_what_came_of_it() -> None:
    page = render(DATA)
    (listed,) = re.findall(r"<h2>All trials</h2>(.*?)</section>", page, flags=re.DOTALL)
    rows = [
        re.findall(r"<td[^>]*>(.*?)</td>", row, flags=re.DOTALL)
        for row in re.findall(r"<tr>(.*?)</tr>", listed, flags=re.DOTALL)
    ]
    cells = {row[0].strip(): [cell.strip() for cell in row] for row in rows if row}
    assert list(cells) == ["1", "2", "3", "4", "5"], "finished ones first, and of these the best"
    assert cells["1"][:6] == ["1", "patt", "0.25", "1000", "20.25", "50.00"]
    assert cells["2"][2] == "–", "avg has no kd_weight"
    assert [cells[number][6] for number in cells] == ["finished"] * 3 + ["stopped", "refused"]
    assert cells["5"][-1] == "too large"


def test_a_browser_loads_it_again_while_there_is_more_to_come() -> None:
    assert 'http-equiv="refresh"' in render(DATA)
    assert 'http-equiv="refresh"' not in render(replace(DATA, planned=5))


def test_plots_are_there_once_there_is_something_to_plot() -> None:
    assert [figure.name for figure in build_document(DATA).figures] == ["front", "parallel", "importance", "curves"]
    nothing = replace(DATA, trials=(), importance={}, systems="")
    assert build_document(nothing).figures == ()
    alone = replace(DATA, objectives=OBJECTIVES[:1], importance={})
    assert "front" in [figure.name for figure in build_document(alone).figures]
