"""Tables of results fit a terminal of eighty columns and cut no figure."""

from __future__ import annotations

import io
from dataclasses import replace
from io import StringIO
from typing import Any

import pytest

from subgraft.base.terminal import Terminal
from subgraft.evaluation.reporting.answer import Answer
from subgraft.evaluation.reporting.records import ReportData
from subgraft.evaluation.reporting.results import terminal_table
from subgraft.experiments.fit.outcome import Outcome


def rendered(data: ReportData, width: int = 80) -> str:
    console = Terminal(file=io.StringIO(), width=width)
    console.print(terminal_table(data).rich())
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


def test_every_seed_and_figure_is_shown(report_data: ReportData) -> None:
    text = rendered(report_data)
    assert "…" not in text
    for system in report_data.systems:
        assert f"{system.scores['BLEU'].value:.2f}" in text
    assert "generated corpus" in text


def test_one_seed_takes_no_column_of_its_own(report_data: ReportData) -> None:
    single = replace(report_data, systems=tuple(system for system in report_data.systems if system.seed == 1))
    assert "seed 1" not in rendered(single)


def test_long_names_are_folded_not_figures(report_data: ReportData) -> None:
    long = "a-system-with-quite-a-long-name"
    systems = tuple(replace(system, name=long) if system.name == "AVG" else system for system in report_data.systems)
    text = rendered(replace(report_data, systems=systems))
    assert "…" not in text
    assert long[:10] in text


@pytest.mark.parametrize("seeds", [1, 2])
def test_the_table_of_a_fit_fits_and_cuts_no_figure(report_data: ReportData, seeds: int) -> None:
    named = {"pretrain-finetune": "old", "mean": "own"}
    systems = tuple(
        replace(system, name=named[system.name])
        for system in report_data.systems
        if system.name in named and system.seed <= seeds
    )
    advised: Any = None  # the table is of the report alone
    outcome = Outcome(replace(report_data, systems=systems, baseline="old"), Answer("own", ""), advised)
    printed = StringIO()
    Terminal(file=printed, width=80).print(outcome.table())
    assert "…" not in printed.getvalue()
    assert all(len(line) <= 80 for line in printed.getvalue().splitlines())
    assert ("one seed" if seeds == 1 else "means over 2 seeds") in " ".join(printed.getvalue().split())
