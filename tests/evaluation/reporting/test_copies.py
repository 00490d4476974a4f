"""Copies of sources in a report."""

from __future__ import annotations

from dataclasses import replace

from subgraft.evaluation.reporting.copies import copying_notes, systems_that_copy
from subgraft.evaluation.reporting.findings import in_short
from subgraft.evaluation.reporting.records import ReportData


def test_a_report_names_who_only_copies_and_what_that_scores(report_data: ReportData) -> None:
    data = report_data
    assert not systems_that_copy(data) and "as if they were translations" in copying_notes(data)[0]
    assert "Outputs that are copies" not in copying_notes(data)[0]
    lazy = replace(data.systems[-1], hypotheses=data.sources)
    with_copies = replace(data, systems=(*data.systems[:-1], lazy))
    (line,) = systems_that_copy(with_copies)
    assert line.startswith(f"{lazy.name} only copies: BLEU of its outputs against their sources is 100.0")
    assert f"copies of their sources: {lazy.name} 50" in copying_notes(with_copies)[0], "one seed of two"
    assert "only copies" in str(in_short(with_copies)) and "only copies" not in str(in_short(data))
    assert copying_notes(replace(with_copies, languages=("de", "de"))) == [], "a task of one language may repeat"
