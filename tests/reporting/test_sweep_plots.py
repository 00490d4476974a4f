"""Which rows belong to a sweep, and which lie on the front."""

from __future__ import annotations

from dataclasses import replace

from subgraft.reporting.data import ReportData
from subgraft.reporting.summary import RowSummary, summarise
from subgraft.reporting.sweep_plots import front, size_series, step_series


def rows(data: ReportData) -> dict[str, RowSummary]:
    return {row.name: row for row in summarise(data)}


def test_a_series_are_rows_that_differ_in_the_size_alone(wide_data: ReportData) -> None:
    (series,) = size_series(summarise(wide_data))
    assert series.name == "mean"
    assert [(size, row.name) for size, row in series.points] == [
        (2000, "mean-2k"),
        (4000, "mean-4k"),
        (8000, "mean"),
        (16000, "mean-16k"),
    ]


def test_generators_begin_as_avg_of_the_same_vocabulary(wide_data: ReportData) -> None:
    (series,) = step_series(summarise(wide_data))
    assert [(steps, row.name) for steps, row in series.points] == [
        (0, "avg"),
        (50, "patt+kd-50"),
        (150, "patt+kd-150"),
        (300, "patt+kd"),
    ]
    found = rows(wide_data)
    elsewhere = [replace(found["avg"], vocabulary_size=4000), found["patt+kd"], found["patt+kd-50"]]
    (series,) = step_series(elsewhere)
    assert [steps for steps, _ in series.points] == [50, 300]
    attached = [replace(found["avg"], variant="attached"), found["patt+kd"], found["patt+kd-50"]]
    (series,) = step_series(attached)
    assert [steps for steps, _ in series.points] == [50, 300]


def test_rows_that_differ_in_both_settings_are_no_series(wide_data: ReportData) -> None:
    found = rows(wide_data)
    both = [found["patt+kd"], replace(found["patt+kd-50"], vocabulary_size=4000)]
    assert size_series(both) == step_series(both) == []


def test_the_front_are_the_rows_that_no_row_beats_in_both(wide_data: ReportData) -> None:
    every = summarise(wide_data)
    best = front(every)
    points = {row.name: (row.sentences_per_second, row.metrics["BLEU"].mean) for row in every}
    beaten = {
        name
        for name, (speed, bleu) in points.items()
        if any(s >= speed and b >= bleu and (s, b) != (speed, bleu) for s, b in points.values())
    }
    assert {row.name for row in best} == set(points) - beaten
    speeds = [row.sentences_per_second for row in best]
    assert speeds == sorted(speeds)
