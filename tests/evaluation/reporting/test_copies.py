"""Copies of sources in a report."""

from __future__ import annotations

from dataclasses import replace

from subgraft.evaluation.reporting.copies import copying_notes, systems_that_copy
from subgraft.evaluation.reporting.findings import notices
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
    assert "only copies" in str(notices(with_copies)) and "only copies" not in str(notices(data))
    assert copying_notes(replace(with_copies, languages=("de", "de"))) == [], "a task of one language may repeat"


def test_a_report_has_the_share_of_outputs_in_the_target_language_where_it_is_known(report_data: ReportData) -> None:
    data, target = report_data, report_data.languages[1]
    assert len(copying_notes(data)) == 1, "a plain translation's outputs are not identified"
    last = data.system_names[-1]
    systems = tuple(
        replace(system, output_language={target: 0.25, "xx": 0.75} if system.name == last else {target: 1.0})
        for system in data.systems
    )
    note = copying_notes(replace(data, systems=systems))[1]
    assert f"in the language {target}: {data.system_names[0]} 100.0 %" in note and f"{last} 25.0 %" in note
    unknown = (replace(systems[0], output_language={}), *systems[1:])
    assert len(copying_notes(replace(data, systems=unknown))) == 1
