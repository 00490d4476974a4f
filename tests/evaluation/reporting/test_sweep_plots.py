"""Which systems belong to a sweep, and which lie on the front."""

from __future__ import annotations

from dataclasses import replace

from subgraft.evaluation.reporting.records import ReportData
from subgraft.evaluation.reporting.summary import SystemSummary, summarise
from subgraft.evaluation.reporting.sweeps import front, size_series, step_series


def systems(data: ReportData) -> dict[str, SystemSummary]:
    return {system.name: system for system in summarise(data)}


def test_a_series_are_systems_that_differ_in_the_size_alone(wide_data: ReportData) -> None:
    (series,) = size_series(summarise(wide_data))
    assert series.name == "mean"
    assert [(size, system.name) for size, system in series.points] == [
        (2000, "mean-2k"),
        (4000, "mean-4k"),
        (8000, "mean"),
        (16000, "mean-16k"),
    ]


def test_generators_start_from_avg_of_the_same_vocabulary(wide_data: ReportData) -> None:
    (series,) = step_series(summarise(wide_data))
    assert [(steps, system.name) for steps, system in series.points] == [
        (0, "avg"),
        (50, "patt+kd-50"),
        (150, "patt+kd-150"),
        (300, "patt+kd"),
    ]
    by_name = systems(wide_data)
    elsewhere = [replace(by_name["avg"], vocabulary_size=4000), by_name["patt+kd"], by_name["patt+kd-50"]]
    (series,) = step_series(elsewhere)
    assert [steps for steps, _ in series.points] == [50, 300]
    attached = [replace(by_name["avg"], variant="attached"), by_name["patt+kd"], by_name["patt+kd-50"]]
    (series,) = step_series(attached)
    assert [steps for steps, _ in series.points] == [50, 300]


def test_systems_that_differ_in_both_settings_are_not_a_series(wide_data: ReportData) -> None:
    by_name = systems(wide_data)
    both = [by_name["patt+kd"], replace(by_name["patt+kd-50"], vocabulary_size=4000)]
    assert size_series(both) == step_series(both) == []


def test_the_front_are_the_systems_that_no_system_beats_in_both(wide_data: ReportData) -> None:
    every = summarise(wide_data)
    best = front(every)
    points = {system.name: (system.sentences_per_second, system.metrics["BLEU"].mean) for system in every}
    beaten = {
        name
        for name, (speed, bleu) in points.items()
        if any(s >= speed and b >= bleu and (s, b) != (speed, bleu) for s, b in points.values())
    }
    assert {system.name for system in best} == set(points) - beaten
    speeds = [system.sentences_per_second for system in best]
    assert speeds == sorted(speeds)
