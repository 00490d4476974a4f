"""Remarks on differences, by their number of seeds, and on finetunings that changed nothing."""

from __future__ import annotations

import io
import re
from dataclasses import replace
from pathlib import Path

import pytest

from comparison_data import write_report
from subgraft.base.terminal import Terminal
from subgraft.evaluation.metrics.significance import Comparison, Interval
from subgraft.evaluation.reporting.findings import claim_in_words, on_few_seeds, untrained, verdict
from subgraft.evaluation.reporting.records import ReportData
from subgraft.evaluation.reporting.results import terminal_table

UNKNOWN = "other seeds may differ"
# Of this word, with a `not` or `nothing` before it in its sentence or without.
CLAIMED = re.compile(r"(?<!not )(?<!call it )(?<!called )\bsignifican(?:t|tly)\b")


def comparison_of(seeds: int, p_value: float, difference: float = 0.5) -> Comparison:
    return Comparison(difference, Interval(difference - 0.4, difference + 0.4), p_value, seeds, 40)


def with_seeds(data: ReportData, seeds: int) -> ReportData:
    """The comparison on so many seeds, of which each has the outputs of one of two."""
    systems = [replace(system, seed=seed) for system in data.systems for seed in range(system.seed, seeds + 1, 2)]
    return replace(data, systems=tuple(systems))


def printed(data: ReportData) -> str:
    console = Terminal(file=io.StringIO(), width=300)
    console.print(terminal_table(data))
    assert isinstance(console.file, io.StringIO)
    return " ".join(console.file.getvalue().split())


@pytest.mark.parametrize(
    ("comparison", "said"),
    [
        (comparison_of(3, 0.02), "significant (p = 0.020)"),
        (
            replace(comparison_of(3, 0.081), p_alone=0.027),
            "not significant (p = 0.081 with Holm's correction, p = 0.027 without, as the interval is)",
        ),
        (comparison_of(3, 0.02, -0.5), "significant (p = 0.020)"),
        (comparison_of(3, 0.2), "not significant (p = 0.200)"),
        (
            comparison_of(2, 0.02),
            "on too few seeds to call it significant (p = 0.020)",
        ),
        (
            comparison_of(1, 0.023),
            "beyond the sampling error of the sentences, for one seed only (p = 0.023)",
        ),
        (
            comparison_of(1, 0.2),
            "within the sampling error of the sentences, for one seed only (p = 0.200)",
        ),
    ],
)
def test_words_follow_the_seeds(comparison: Comparison, said: str) -> None:
    assert verdict(comparison) == said and claim_in_words(comparison) == said.partition(" (p")[0]


def test_systems_on_few_seeds_are_named_where_others_have_more() -> None:
    assert on_few_seeds({"mean": 3, "avg": 5}) == []
    assert on_few_seeds({"mean": 1, "avg": 1}) == [
        f"On one seed, intervals and p-values describe these outputs only; {UNKNOWN}."
    ]
    one, two = on_few_seeds({"mean": 1, "avg": 2, "patt": 3, "att": 2})
    assert one.startswith("On one seed (mean), ")
    assert two == "On two seeds (avg, att) nothing is called significant: that takes 3."


@pytest.mark.slow
@pytest.mark.parametrize("seeds", [1, 2, 3])
def test_no_report_or_terminal_calls_anything_significant_on_less_than_three_seeds(
    report_data: ReportData, tmp_path: Path, seeds: int
) -> None:
    data = with_seeds(report_data, seeds)
    write_report(data, tmp_path)
    markdown, terminal = (tmp_path / "report.md").read_text(encoding="utf-8"), printed(data)
    assert bool(CLAIMED.search(markdown)) == (seeds == 3)
    assert not CLAIMED.search(terminal)
    for shown in (markdown, terminal):
        assert (UNKNOWN in shown) == (seeds == 1)
        assert ("nothing is called significant" in shown) == (seeds == 2)
    assert ("beyond the sampling error of the sentences, for one seed only" in markdown) == (seeds == 1)


def test_a_system_that_finetuning_did_not_improve_is_named_wherever_systems_are_shown(
    report_data: ReportData, tmp_path: Path
) -> None:
    assert untrained(report_data) == []
    systems = [
        replace(system, selected_step=0) if (system.name, system.seed) == ("mean", 2) else system
        for system in report_data.systems
    ]
    data = replace(report_data, systems=tuple(systems))
    write_report(data, tmp_path)
    warning = (
        "Best on dev before any training, so that these are scores of models that are not finetuned: mean, seed 2."
    )
    assert untrained(data) == [warning]
    markdown = (tmp_path / "report.md").read_text(encoding="utf-8")
    assert markdown.lower().count(warning.lower()) == 1, "before the scores, and nowhere else"
    assert warning in printed(data)
