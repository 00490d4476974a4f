"""What the benchmarks share: one table for people and the same as JSON, and what `make bench` runs."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import run_all
from measurements import CANNOT, cannot, measurements, options


def test_a_table_is_printed_row_by_row_and_kept_as_json(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    place = tmp_path / "new" / "it.json"
    args = options("What it asks.").parse_args(["--quick", "--json", str(place)])
    with measurements("What it asks.\n\nMore.", args) as table:
        table.add("ours", CPU_seconds=1234.5, count=2_000)
        table.add("theirs", CPU_seconds=0.12345, count=None)
        table.add("another", note="fine")
    printed = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert printed[:2] == [["CPU", "seconds", "count"], ["ours", "1,234", "2,000"]]
    assert printed[2:] == [["theirs", "0.123", "–"], ["note"], ["another", "fine"]]
    stored = json.loads(place.read_text())
    assert stored["rows"][1] == {"what": "theirs", "CPU_seconds": 0.12345, "count": None}
    assert stored["question"] == "What it asks." and stored["options"] == {"quick": True}


def test_nothing_is_kept_of_a_benchmark_that_fails(tmp_path: Path) -> None:
    args = options("?").parse_args(["--json", str(tmp_path / "it.json")])
    with pytest.raises(RuntimeError), measurements("?", args):
        raise RuntimeError
    assert not list(tmp_path.iterdir())


def test_a_benchmark_that_cannot_run_is_skipped(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        cannot("no corpora")
    assert ended.value.code == CANNOT and capsys.readouterr().out == "left out: no corpora\n"


def test_all_that_make_bench_runs_is_there_and_takes_its_options() -> None:
    folder = Path(run_all.__file__).parent
    for each in run_all.BENCHMARKS:
        source = (folder / f"{each.name}.py").read_text()
        assert "options(__doc__)" in source and "measurements(__doc__" in source, each.name
