"""The section on rare tokens: rates of each class, shares of the text, and omitted references."""

from __future__ import annotations

from dataclasses import replace

from subgraft.evaluation.metrics.token_classes import Bits, Likelihood
from subgraft.evaluation.reporting.document import Figure
from subgraft.evaluation.reporting.records import ReportData
from subgraft.evaluation.reporting.table import Table, text_markdown
from subgraft.pipeline.measurements.likelihood import rare_tokens


def measured(data: ReportData, left_out: int = 0) -> ReportData:
    """The comparison with likelihoods: the baseline has no new token, and a stretch that it cannot spell."""

    def likelihood(name: str, seed: int) -> Likelihood:
        is_baseline = name == data.baseline
        bits = 200.0 + seed if is_baseline else 100.0 + seed
        stretches = {
            "seen": Bits(40, 400, 0, 800.0),
            "1–2": Bits(10, 100, 6, bits),
            "not spelled": Bits(2, 2, 0, 1.0),
        }
        tokens = {"seen": Bits(90, 502, 0, 900.0)} if is_baseline else {"1–2": Bits(20, 100, 6, bits)}
        return Likelihood(240, left_out if is_baseline else 0, 502, 1004.0, 100.0, tokens, stretches)

    systems = (replace(each, measurements=(likelihood(each.name, each.seed),)) for each in data.systems)
    return replace(data, systems=tuple(systems))


def test_rates_by_class(report_data: ReportData) -> None:
    (section,) = rare_tokens(measured(report_data, left_out=3))
    stretches, figure, tokens = section.blocks
    assert isinstance(stretches, Table) and isinstance(figure, Figure) and isinstance(tokens, Table)
    rows = [[text_markdown(cell) for cell in row] for row in stretches.rows]
    assert [column.heading for column in stretches.columns] == [
        "system",
        "all text",
        "seen",
        "1–2\ntimes",
        "not spelled",
    ]
    assert rows[0] == ["share of the characters", "100.0 %", "79.7 %", "19.9 %", "0.4 %"]
    assert rows[1] == ["stretches", "52", "40", "10", "2"]
    assert rows[2] == ["pretrain-finetune", "2.000", "2.000", "2.015", "0.500"]
    assert rows[3] == ["random", "2.000", "2.000", "1.015", "0.500"]
    notes = [text_markdown(note) for note in stretches.notes]
    assert any("Not spelled" in note for note in notes)
    assert any("left out: pretrain-finetune 3." in note for note in notes)
    assert [text_markdown(row[0]) for row in tokens.rows] == ["random", "mean", "AVG", "PATT+KD"]
    assert "5.08" in text_markdown(tokens.rows[0][1]) and "20 tokens" in text_markdown(tokens.rows[0][1])


def test_without_likelihoods_there_is_no_section(report_data: ReportData) -> None:
    assert rare_tokens(report_data) == []
    plain = [text_markdown(note) for note in rare_tokens(measured(report_data))[0].blocks[0].notes]  # type: ignore[union-attr]
    assert not any("left out" in note for note in plain)


def test_one_system_alone_is_compared_with_nothing(report_data: ReportData) -> None:
    alone = measured(replace(report_data, systems=report_data.results("mean"), baseline=None))
    (section,) = rare_tokens(alone)
    assert not any(isinstance(block, Figure) for block in section.blocks)
