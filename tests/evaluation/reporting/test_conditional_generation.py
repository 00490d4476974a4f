"""Texts that are written for a source, in the report: a score a column, with intervals over texts and seeds."""

from __future__ import annotations

from dataclasses import replace
from statistics import fmean

import numpy as np
import pytest
from rich.console import Console

from subgraft.evaluation.metrics.scores import Score
from subgraft.evaluation.reporting.continuation import (
    Continued,
    continuation_table,
    drift_curves,
    written_scores,
    written_section,
)
from subgraft.evaluation.reporting.records import CurvePoint, ReportData, SystemResult
from subgraft.evaluation.reporting.table import Table, table_markdown

TEXTS = 200
ADHERES = {"mean": 0.6, "AVG": 0.9}


def _written(system: SystemResult) -> SystemResult:
    """Texts of which so many are of their class, distinct-1 by seed, and feed-forward weights that move."""
    generator = np.random.default_rng(system.seed)
    hits = (generator.random(TEXTS) < ADHERES[system.name]).astype(float)
    scores = {
        "adherence": Score("adherence", 100 * hits.mean(), "classifier:tfidf+logistic"),
        "distinct-1": Score("distinct-1", 30.0 + system.seed, "n:1"),
    }
    statistics = {"adherence": np.stack([100 * hits, np.ones(TEXTS)], axis=1)}
    curve = tuple(CurvePoint(step, 1.0, 1.0, 2.0, drift=step * 1e-4) for step in (0, 10, 20))
    return replace(system, scores=scores, statistics=statistics, curve=curve, selected_step=10)


@pytest.fixture(scope="module")
def data(report_data: ReportData) -> ReportData:
    systems = tuple(_written(system) for system in report_data.systems if system.name in ADHERES)
    return replace(report_data, systems=systems, baseline="mean", bootstrap_samples=200)


def _cells(shown: Table) -> dict[str, list[str]]:
    rows = [["".join(span.text for span in cell) for cell in row] for row in shown.rows]
    return {row[0]: row[1:] for row in rows}


def test_scores_have_intervals_and_a_comparison_with_the_baseline(data: ReportData) -> None:
    (shown,) = written_scores(data)
    assert [column.heading for column in shown.columns] == ["system", "adherence", "distinct-1", "drift"]
    cells = _cells(shown)
    mean, between, p_value = cells["AVG"][0].split("\n")
    assert float(mean) == pytest.approx(90, abs=5) and p_value.startswith("p ")
    low, high = (float(end) for end in between.strip("[]").split(", "))
    assert low < float(mean) < high
    assert len(cells["mean"][0].split("\n")) == 2, "the baseline is not compared with itself"
    assert cells["AVG"][2] == "1.0e-03", "of the weights that were kept"


def test_a_score_of_all_texts_together_has_the_variance_of_seeds_alone(data: ReportData) -> None:
    mean, between = _cells(written_scores(data)[0])["AVG"][1].split("\n")
    low, high = (float(end) for end in between.strip("[]").split(", "))
    # 31 and 32: 31.5 ± 12.706 · 0.7071 / √2.
    assert mean == "31.5" and (low, high) == pytest.approx((31.5 - 6.35, 31.5 + 6.35), abs=0.5)
    one = replace(data, systems=tuple(system for system in data.systems if system.seed == 1))
    assert _cells(written_scores(one)[0])["AVG"][1] == "31.0", "one seed says nothing of others"


def test_signatures_and_what_scores_mean_stand_below(data: ReportData) -> None:
    notes = " ".join("".join(span.text for span in note) for note in written_scores(data)[0].notes)
    assert "adherence classifier:tfidf+logistic; distinct-1 n:1" in notes and "assigns to the class" in notes
    assert "adherence" in table_markdown(written_scores(data)[0])


def test_drift_is_drawn_where_a_curve_has_it(data: ReportData) -> None:
    (figure,) = drift_curves(data)
    assert figure.png.startswith(b"\x89PNG")
    assert [section.title for section in written_section(data)] == ["Scores of outputs"]


def test_models_without_a_source_have_none_of_it(data: ReportData) -> None:
    plain = tuple(replace(system, scores={}, statistics={}, curve=()) for system in data.systems)
    assert written_section(replace(data, systems=plain)) == ()


def test_the_terminal_shows_what_there_is_room_for(data: ReportData) -> None:
    def scored(system: SystemResult) -> SystemResult:
        others = {"bits saved": Score("bits saved", 0.02, ""), "exact match": Score("exact match", 50.0, "")}
        bits = np.stack([np.full(TEXTS, 20.0), np.full(TEXTS, 10.0)], axis=1)
        return replace(system, scores={**system.scores, **others}, measurements=(Continued(bits),))

    shown = continuation_table(replace(data, systems=tuple(map(scored, data.systems)), references=("",) * TEXTS))
    assert shown.headings[5:] == ("p", "exact\nmatch", "adherence", "tokens/\nline", "prompts/\ns")
    by_name = {name: figures for name, *figures in shown.rows}
    adheres = fmean(system.scores["adherence"].value for system in data.results("AVG"))
    assert by_name["AVG"][5:7] == ["50.0", f"{adheres:.1f}"]
    console = Console(width=80)
    lines = [line.text for segments in console.render_lines(shown.rich(), pad=False) for line in segments]
    assert "…" not in "".join(lines)
