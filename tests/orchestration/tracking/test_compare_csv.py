"""Runs side by side: as a table for readers, and for spreadsheets and programs."""

from __future__ import annotations

import csv
import io
from pathlib import Path

import pytest

from subgraft.base.terminal import Terminal
from subgraft.evaluation.reporting.table import MainTable
from subgraft.orchestration.tracking.compare import ComparedSystem, significance, table, write_csv
from subgraft.orchestration.tracking.server import TrackedRun


def test_figures_are_written_in_full_and_missing_ones_left_empty() -> None:
    systems = [
        ComparedSystem("run, one", "patt+kd", "1", False, {"BLEU": 31.12345678901234, "chrF": 50.0}),
        ComparedSystem("run, one", "random", "", True, {"chrF": 1e-9, "sentences_per_second": 12.5}),
    ]
    file = io.StringIO()
    write_csv(systems, file)
    heading, *lines = csv.reader(io.StringIO(file.getvalue()))
    assert heading == ["run", "system", "seed", "cached", "BLEU", "chrF", "sentences_per_second"]
    assert lines[0] == ["run, one", "patt+kd", "1", "false", "31.12345678901234", "50.0", ""]
    assert lines[1] == ["run, one", "random", "", "true", "", "1e-09", "12.5"]


def shown(systems: list[ComparedSystem], width: int) -> list[str]:
    console = Terminal(width=width, file=io.StringIO(), record=True)
    console.print(table(systems, width))
    return console.export_text().splitlines()


SCORES = {"BLEU": 10.0, "chrF": 20.0, "TER": 90.0, "ROUGE-L": 30.0, "METEOR": 40.0}


def scored(system: str, seed: int, better: float, run: str = "monday", test_set: str = "") -> ComparedSystem:
    figures = {name: value + better for name, value in SCORES.items()} | {"cut_outputs": 3.0, "seconds": 9.0}
    return ComparedSystem(run, system, str(seed), False, figures, tuple(SCORES), test_set)


@pytest.mark.parametrize("width", [60, 80, 140])
def test_one_table_has_the_means_over_seeds_best_first(width: int) -> None:
    name = "a-long-name-of-a-system-with-a-cut-vocabulary"
    systems = [scored("old", 1, 0), scored("old", 2, 1), scored(name, 1, 5), scored(name, 2, 6)]
    systems += [scored("old (upstream)", 1, 50, test_set="upstream")]
    lines = shown(systems, width)
    assert all(len(line) <= width for line in lines)
    assert "BLEU ↑" in lines[0] and ("TER ↓" in lines[0] or any("Too wide to show" in line for line in lines))
    assert not any("seconds" in line or "cut" in line.split() for line in lines[:1])
    text = "\n".join(lines)
    assert text.index("15.50") < text.index("10.50") < text.index("60.00"), "other test sets are last"
    assert "1, 2" in text


def test_where_less_is_better_the_least_is_first() -> None:
    bits = [
        ComparedSystem("a", name, "1", False, {"bits_per_character": value}, ("bits_per_character",))
        for name, value in (("old", 1.5), ("new", 1.25))
    ]
    lines = shown(bits, 80)
    assert any("char ↓" in line for line in lines)
    assert [line.split()[0] for line in lines if "1." in line] == ["new", "old"]


def test_the_reports_tests_are_sentences(tmp_path: Path) -> None:
    report = tmp_path / "store" / "report" / "ab12"
    report.mkdir(parents=True)
    rows = (("old", "5.00", "–", "–"), ("mean", "7.00", "+2.00", "< 0.001"), ("random", "4.00", "−1.00", "0.300"))
    MainTable("a", "9 sentences\nOn one seed.", ("system", "BLEU", "Δ", "p"), rows).write(report)
    run = TrackedRun("1", "monday", {"fingerprint.report": "ab12"}, {}, "1")
    assert significance(tmp_path, run) == [
        "mean against old: +2.00 BLEU, p < 0.001, more than chance.",
        "random against old: −1.00 BLEU, p 0.300, which may be chance.",
        "On one seed.",
    ]
    assert significance(tmp_path / "other", run) == [] == significance(tmp_path, TrackedRun("1", "a", {}, {}, "1"))
