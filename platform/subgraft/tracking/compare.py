"""Runs side by side: the figures of one kind of stage, a line for each row, seed and run."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from subgraft.errors import UserError
from subgraft.store.step import TEST_SET
from subgraft.tracking.server import Server

if TYPE_CHECKING:
    from rich.table import Table

SINGLE = (
    "Every line is one training: that one figure is higher may be the luck of its seed or of the test sentences. "
    "What is more than luck, reports say."
)


@dataclass(frozen=True, slots=True)
class ComparedRow:
    """One stage of one run: its row and seed labels (or its name, where it has none) and its figures."""

    run: str
    row: str
    seed: str
    cached: bool
    figures: dict[str, float]


def compare(server: Server, runs: Sequence[str], stage: str = "evaluate") -> list[ComparedRow]:
    """The finished stages of that kind in the runs given by name or id, in the order given.

    A row's evaluation on the upstream test set is told from the one on the task's: `patt (upstream)`.

    Raises UserError for a run that is not there, or if none of the runs has such a stage.
    """
    rows = []
    for run in map(server.find, runs):
        for child in server.children(run):
            if child.tags.get("stage") == stage and child.metrics:
                tags = child.tags
                row, seed = tags.get("row", child.name), tags.get("seed", "")
                row += f" ({tags[TEST_SET]})" if "row" in tags and TEST_SET in tags else ""
                rows.append(ComparedRow(run.name, row, seed, tags.get("cached") == "true", dict(child.metrics)))
    if not rows:
        raise UserError(f"none of these runs has a finished stage '{stage}'", where=", ".join(runs))
    return rows


def table(rows: Sequence[ComparedRow]) -> Table:
    """The rows as people read them, and what they do not show; a figure that a row lacks is blank."""
    from rich.table import Table

    figures = list(dict.fromkeys(name for row in rows for name in row.figures))
    shown = Table(box=None, pad_edge=False, caption=SINGLE, caption_justify="left")
    for heading in ("run", "row", "seed"):
        shown.add_column(heading)
    for heading in figures:
        shown.add_column(heading, justify="right")
    for row in rows:
        values = [f"{row.figures[name]:.4g}" if name in row.figures else "" for name in figures]
        shown.add_row(row.run, row.row, row.seed, *values)
    return shown
