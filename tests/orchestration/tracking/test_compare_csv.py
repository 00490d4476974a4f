"""Runs side by side, for spreadsheets and programs."""

from __future__ import annotations

import csv
import io

from subgraft.orchestration.tracking.compare import ComparedSystem, write_csv


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
