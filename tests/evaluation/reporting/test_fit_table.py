"""The table that a fit ends with, of a report's data."""

from __future__ import annotations

from dataclasses import replace
from io import StringIO
from typing import Any

import pytest

from subgraft.base.terminal import Terminal
from subgraft.evaluation.reporting.answer import Answer
from subgraft.evaluation.reporting.records import ReportData
from subgraft.experiments.fit.outcome import Outcome


@pytest.mark.parametrize("seeds", [1, 2])
def test_it_fits_a_terminal_of_eighty_columns_and_cuts_no_figure(report_data: ReportData, seeds: int) -> None:
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
