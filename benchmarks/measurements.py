"""What the benchmarks share: options, a table that grows as they measure, and the same as JSON."""

from __future__ import annotations

import argparse
import json
import os
import platform
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import NoReturn, TypeAlias

from subgraft.orchestration.execution.cluster import ENVIRONMENT

Cell: TypeAlias = "int | float | str | None"
WIDTH = 12
# What a benchmark ends with that lacks something to run on.
CANNOT = 77


def options(question: str | None) -> argparse.ArgumentParser:
    """A parser with what every benchmark takes. question: its docstring."""
    parser = argparse.ArgumentParser(description=question, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="smaller sizes, for a look in passing")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the table there too, with what it was made on")
    return parser


def in_environment_of_runs() -> None:
    """Restart with the variables that runs set for their workers: some are read only when a process starts."""
    lacking = {name: value for name, value in ENVIRONMENT.items() if name not in os.environ}
    if lacking:
        os.execve(sys.executable, [sys.executable, *sys.argv], {**os.environ, **lacking})


def cannot(why: str) -> NoReturn:
    """End a benchmark that lacks something: it is skipped, which does not fail."""
    print(f"left out: {why}", flush=True)
    raise SystemExit(CANNOT)


def real_text() -> Path:
    """The folder of real corpora; a benchmark without it is left out."""
    mirror = Path(__file__).resolve().parents[2] / "shared" / "data"
    folder = Path(os.environ.get("SUBGRAFT_DATA", mirror))
    if not folder.is_dir():
        cannot(f"no corpora in {folder}: set SUBGRAFT_DATA to their folder")
    return folder


class Measurements:
    """A table that is printed row by row; with --json, written once it is whole."""

    def __init__(self) -> None:
        self.rows: list[dict[str, Cell]] = []
        self._headings: tuple[str, ...] = ()
        self._width = 32

    def add(self, what: str, **cells: Cell) -> None:
        """A row. Where its columns are others than those of the row before, their headings come first."""
        headings = tuple(name.replace("_", " ") for name in cells)
        if headings != self._headings:
            self._headings = headings
            print("  ".join([" " * self._width, *(f"{name:>{WIDTH}}" for name in headings)]))
        columns = (
            f"{_shown(cell):>{max(WIDTH, len(name))}}" for name, cell in zip(headings, cells.values(), strict=True)
        )
        print("  ".join([f"{what:{self._width}}", *columns]), flush=True)
        self.rows.append({"what": what, **cells})


@contextmanager
def measurements(question: str | None, args: argparse.Namespace) -> Iterator[Measurements]:
    """The table of a benchmark; nothing is written where it fails. question: its docstring."""
    table = Measurements()
    yield table
    if args.json is None:
        return
    arguments = {name: str(value) if isinstance(value, Path) else value for name, value in vars(args).items()}
    content = {
        "benchmark": Path(sys.argv[0]).stem,
        "question": (question or "").strip().splitlines()[0],
        "options": {name: value for name, value in arguments.items() if name != "json"},
        "finished": datetime.now(UTC).isoformat(timespec="seconds"),
        "machine": {"cores": os.cpu_count(), "load": os.getloadavg()[0], "system": platform.platform()},
        "versions": {name: version(name) for name in ("subgraft", "torch", "transformers")},
        "rows": table.rows,
    }
    args.json.parent.mkdir(parents=True, exist_ok=True)
    args.json.write_text(json.dumps(content, indent=1, ensure_ascii=False, default=str) + "\n", encoding="utf-8")


def _shown(cell: Cell) -> str:
    if cell is None:
        return "–"
    if isinstance(cell, float):
        return f"{cell:,.0f}" if abs(cell) >= 1000 else f"{cell:.3g}"
    return f"{cell:,}" if isinstance(cell, int) else cell
