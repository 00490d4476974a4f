"""A map of systems over numbers of pairs and rates of the tables: as Markdown, as a drawing, as JSON."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import product
from pathlib import Path
from typing import NamedTuple, TypeAlias

import numpy as np

from subgraft.evaluation.metrics.sentence_statistics import FloatArray
from subgraft.evaluation.reporting.drawing import SMALL, new_figure, png

MISSING = "–"
# A number of pairs, and a rate of the tables.
Column: TypeAlias = tuple[int, float]


class Measure(NamedTuple):
    """What is measured: its heading, its digits, and whether less is better."""

    heading: str
    digits: int
    low: bool = False


@dataclass(frozen=True)
class Cell:
    """A system under one number of pairs and one rate of the tables (0: frozen). values: by measure, over seeds."""

    system: str
    pairs: int
    embedding_learning_rate: float
    seeds: int
    values: dict[str, float]

    @property
    def column(self) -> Column:
        return self.pairs, self.embedding_learning_rate


def write(results: Sequence[Cell], measures: Mapping[str, Measure], about: str, out: Path) -> str:
    """table.md, map.json and map.png in a folder; returns the tables.  about: what every value is, in the drawing."""
    out.mkdir(parents=True, exist_ok=True)
    tables = as_markdown(results, measures)
    (out / "table.md").write_text(tables, encoding="utf-8")
    (out / "map.json").write_text(json.dumps([asdict(cell) for cell in results], indent=1) + "\n")
    (out / "map.png").write_bytes(draw(results, measures, about))
    return tables


def as_markdown(results: Sequence[Cell], measures: Mapping[str, Measure]) -> str:
    """A table for each measure, systems by pairs and rates; what is best in a column is bold."""
    systems, columns = _systems(results), _columns(results)
    tables = []
    for measure, (heading, digits, low) in measures.items():
        values = {(cell.system, cell.column): cell.values[measure] for cell in results}
        best = {
            at: (min if low else max)(values[system, at] for system in systems if (system, at) in values)
            for at in columns
        }
        lines = [f"| {heading} | " + " | ".join(map(named, columns)) + " |", "|---" * (len(columns) + 1) + "|"]
        for system in systems:
            shown = [_shown(values.get((system, at)), best[at], digits) for at in columns]
            lines.append(f"| {system} | " + " | ".join(shown) + " |")
        tables.append("\n".join(lines))
    return "\n\n".join(tables) + "\n"


def _shown(value: float | None, best: float, digits: int) -> str:
    if value is None:
        return MISSING
    cell = f"{value:.{digits}f}"
    return f"**{cell}**" if value == best else cell


def draw(results: Sequence[Cell], measures: Mapping[str, Measure], about: str) -> bytes:
    """A panel for each measure. A colour says how far a system is ahead of the mean of its column, or behind."""
    systems, columns = _systems(results), _columns(results)
    with new_figure(2.2 + 1.1 * len(columns), len(measures) * (1.1 + 0.36 * len(systems))) as figure:
        for panel, (measure, (heading, digits, low)) in zip(
            np.atleast_1d(figure.subplots(len(measures))), measures.items(), strict=True
        ):
            values = {(cell.system, cell.column): cell.values[measure] for cell in results}
            ahead = _ahead(values, systems, columns, -1 if low else 1)
            most = float(np.nanmax(np.abs(ahead))) or 1.0
            # Not as far as the darkest colours, on which numbers could not be read.
            panel.imshow(ahead, cmap="BrBG", vmin=-1.6 * most, vmax=1.6 * most, aspect="auto")
            for (y, system), (x, at) in product(enumerate(systems), enumerate(columns)):
                label = f"{values[system, at]:.{digits}f}" if (system, at) in values else MISSING
                panel.text(x, y, label, ha="center", va="center", fontsize=SMALL)
            panel.set_xticks(range(len(columns)), [named(at).replace(", ", "\n") for at in columns], fontsize=SMALL)
            panel.set_yticks(range(len(systems)), systems)
            panel.grid(False)
            panel.set(title=heading + about)
        panel.set_xlabel("green: better than the mean of the column; brown: worse")
        return png(figure)


def _ahead(
    values: Mapping[tuple[str, Column], float], systems: Sequence[str], columns: Sequence[Column], sign: int
) -> FloatArray:
    """[systems, columns] how much better a value is than the mean of its column; not a number where there is none."""
    matrix = np.array([[values.get((system, at), np.nan) for at in columns] for system in systems])
    difference: FloatArray = sign * (matrix - np.nanmean(matrix, axis=0))
    return difference


def named(column: Column) -> str:
    """As `500 pairs, frozen`."""
    pairs, rate = column
    return f"{pairs:,} pairs, " + (f"{rate:g}" if rate else "frozen")


def _systems(results: Sequence[Cell]) -> list[str]:
    return list(dict.fromkeys(cell.system for cell in results))


def _columns(results: Sequence[Cell]) -> list[Column]:
    return list(dict.fromkeys(cell.column for cell in results))
