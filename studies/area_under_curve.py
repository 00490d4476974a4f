"""How far each system has come on average over few updates, for numbers of pairs and rates of the tables: a map.

    python studies/area_under_curve.py CONFIG [key=value …] --pairs 500 2000 --table-rates 0 4e-3 --out DIR

Reads the finetunings that `subgraft run CONFIG finetune.pairs=… finetune.embedding_learning_rate=…` has left in the
store, and trains nothing. The area is that under a dev curve over log(1 + step), divided by its width: the mean of bits
per character, and of BLEU, where every doubling of the updates counts as much. Seeds are averaged. Writes table.md,
map.json and map.png to DIR, and prints the tables.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import pairwise, product
from pathlib import Path
from statistics import fmean
from typing import TypeAlias

import numpy as np

from subgraft.config.configfile import load
from subgraft.config.experiment import Experiment
from subgraft.errors import SubgraftError, UserError
from subgraft.experiment.pipeline import Pipeline
from subgraft.metrics.sentence_statistics import FloatArray
from subgraft.reporting.drawing import SMALL, drawing, png
from subgraft.stages.kept_weights import CURVE
from subgraft.store.store import Store, default_home

# What is measured, as a curve has it: its heading, its digits, and whether less is better.
MEASURES = {"bits_per_character": ("bits per character", 3, True), "bleu": ("dev BLEU", 2, False)}
MISSING = "–"
# A number of pairs, and a rate of the tables.
Column: TypeAlias = tuple[int, float]


@dataclass(frozen=True)
class Cell:
    """A system under one number of pairs and one rate of the tables (0: frozen). areas: by measure, over seeds."""

    system: str
    pairs: int
    embedding_learning_rate: float
    seeds: int
    areas: dict[str, float]

    @property
    def column(self) -> Column:
        return self.pairs, self.embedding_learning_rate


def area(points: Sequence[tuple[int, float]]) -> float:
    """The mean of a curve of (step, value) over log(1 + step), by trapezoids. Raises ValueError for a single step."""
    if len(points) < 2:
        raise ValueError("a curve of one step has no area")
    at = [(math.log1p(step), value) for step, value in points]
    whole = sum((right - left) * (before + after) / 2 for (left, before), (right, after) in pairwise(at))
    return whole / (at[-1][0] - at[0][0])


def cells(config: Path, overrides: Sequence[str], pairs: Sequence[int], rates: Sequence[float]) -> list[Cell]:
    """Of every system and setting that has been finetuned, in the order of the configuration. Raises UserError."""
    store, found = Store(default_home()), list[Cell]()
    for count, rate in product(pairs, rates):
        changes = [*overrides, f"finetune.pairs={count}", f"finetune.embedding_learning_rate={rate}"]
        experiment = load(config, Experiment, changes)
        curves: dict[str, list[Path]] = {system.name: [] for system in experiment.systems}
        for steps in Pipeline(experiment, config.absolute().parent).systems:
            if store.find(steps.finetune) is not None:
                curves[steps.system.name].append(store.artifact(steps.finetune) / CURVE)
        found += [Cell(system, count, rate, len(paths), _areas(paths)) for system, paths in curves.items() if paths]
    if not found:
        raise UserError("none of these finetunings is in the store", where=str(config), hint="Run them first.")
    return found


def _areas(paths: Sequence[Path]) -> dict[str, float]:
    curves = [json.loads(path.read_text()) for path in paths]
    return {
        name: fmean(area([(point["step"], point["values"][name]) for point in curve]) for curve in curves)
        for name in MEASURES
    }


def as_markdown(found: Sequence[Cell]) -> str:
    """A table for each measure, systems by pairs and rates; what is best in a column is bold."""
    systems, columns = _systems(found), _columns(found)
    tables = []
    for measure, (heading, digits, low) in MEASURES.items():
        values = {(cell.system, cell.column): cell.areas[measure] for cell in found}
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
    told = f"{value:.{digits}f}"
    return f"**{told}**" if value == best else told


def draw(found: Sequence[Cell]) -> bytes:
    """A panel for each measure. A colour says how far a system is ahead of the mean of its column, or behind."""
    systems, columns = _systems(found), _columns(found)
    with drawing(2.2 + 1.1 * len(columns), 2 * (1.1 + 0.36 * len(systems))) as figure:
        for panel, (measure, (heading, digits, low)) in zip(figure.subplots(2), MEASURES.items(), strict=True):
            values = {(cell.system, cell.column): cell.areas[measure] for cell in found}
            ahead = _ahead(values, systems, columns, -1 if low else 1)
            most = float(np.nanmax(np.abs(ahead))) or 1.0
            # Not as far as the darkest colours, on which numbers could not be read.
            panel.imshow(ahead, cmap="BrBG", vmin=-1.6 * most, vmax=1.6 * most, aspect="auto")
            for (y, system), (x, at) in product(enumerate(systems), enumerate(columns)):
                told = f"{values[system, at]:.{digits}f}" if (system, at) in values else MISSING
                panel.text(x, y, told, ha="center", va="center", fontsize=SMALL)
            panel.set_xticks(range(len(columns)), [named(at).replace(", ", "\n") for at in columns], fontsize=SMALL)
            panel.set_yticks(range(len(systems)), systems)
            panel.grid(False)
            panel.set(title=f"{heading}, mean over log(1 + updates)")
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


def _systems(found: Sequence[Cell]) -> list[str]:
    return list(dict.fromkeys(cell.system for cell in found))


def _columns(found: Sequence[Cell]) -> list[Column]:
    return list(dict.fromkeys(cell.column for cell in found))


def main(arguments: Sequence[str] | None = None) -> int:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("config", type=Path, metavar="CONFIG")
    options.add_argument("overrides", nargs="*", metavar="key=value")
    options.add_argument("--pairs", type=int, nargs="+", required=True)
    options.add_argument("--table-rates", type=float, nargs="+", required=True, help="0 is frozen tables")
    options.add_argument("--out", type=Path, required=True, metavar="DIR")
    given = options.parse_args(arguments)
    try:
        found = cells(given.config, given.overrides, given.pairs, given.table_rates)
    except SubgraftError as error:
        print(f"area_under_curve: {error}", file=sys.stderr)
        return 2 if isinstance(error, UserError) else 1
    given.out.mkdir(parents=True, exist_ok=True)
    tables = as_markdown(found)
    (given.out / "table.md").write_text(tables, encoding="utf-8")
    (given.out / "map.json").write_text(json.dumps([asdict(cell) for cell in found], indent=1) + "\n")
    (given.out / "map.png").write_bytes(draw(found))
    print(tables, end="")
    return 0


if __name__ == "__main__":
    sys.exit(main())
