"""The main table fits a terminal of eighty columns and cuts no figure."""

from __future__ import annotations

import io
from dataclasses import replace

from subgraft.base.terminal import Terminal
from subgraft.evaluation.reporting.records import ReportData
from subgraft.evaluation.reporting.results import terminal_table


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
