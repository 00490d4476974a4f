"""Tables on narrow terminals: figures are never cut, and what does not fit is a record a row."""

from __future__ import annotations

import io
import re

import pytest
from rich.text import Text

from subgraft.base.terminal import Table, Terminal

HEADINGS = ("corpus", "language", "segments", "words", "BLEU\nseed 1", "BLEU\nseed 2", "tokens/\nsent.", "remark")
ROWS = (
    ("everyday", "en", "446,912", "12,345,678", "31.27", "30.98", "17.4", ""),
    ("law\x1b[31m", "de", "9", "1,190,379", "7.10", "7.25", "21.0", "as in MANIFEST.tsv, which was read again"),
)


def _printed(width: int, **options: object) -> str:
    table = Table(*HEADINGS, **options)  # type: ignore[arg-type]
    for first, *cells in ROWS:
        table.add_row(first, *cells[:-1], Text(cells[-1]))
    out = io.StringIO()
    Terminal(file=out, width=width).print(table)
    return out.getvalue()


@pytest.mark.parametrize("width", [20, 40, 60, 80, 100, 140])
def test_figures_are_whole_at_every_width(width: int) -> None:
    shown = _printed(width)
    for row in ROWS:
        for cell in row[2:7]:
            assert re.search(rf"(?<![\d.,]){re.escape(cell)}(?!\d|[.,]\d)", shown), (width, cell, shown)
    assert "…" not in shown and "\x1b[31m" not in shown
    assert all(len(line) <= width for line in shown.splitlines())


def test_what_does_not_fit_is_a_record_a_row() -> None:
    wide, narrow = _printed(140), _printed(60, names=2, caption="of both")
    assert "everyday" in wide and "segments:" not in wide
    lines = [line.rstrip() for line in narrow.splitlines()]
    assert lines[0] == "everyday en" and lines[-1] == "of both"
    assert lines[1].startswith("  segments: 446,912 · words: 12,345,678")
    assert "  BLEU, seed 1, seed 2: 31.27, 30.98 · tokens/sent.: 17.4" in lines
    assert not any("remark" in line for line in lines[: lines.index("law\\x1b[31m de")]), "what is empty is left out"


def test_a_pipe_is_as_wide_as_columns_says(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    assert Terminal(file=io.StringIO()).width == 80
    monkeypatch.delenv("COLUMNS")
    assert Terminal(file=io.StringIO()).width == 140
