"""How far each system has come on average over few updates, for numbers of pairs and rates of the tables: a map.

    python studies/area_under_curve.py CONFIG [key=value …] --pairs 500 2000 --table-rates 0 4e-3 --out DIR

Reads the finetunings that `subgraft run CONFIG finetune.max_train_examples=… finetune.embedding_learning_rate=…` has
left in the store, and trains nothing. The area is that under a dev curve over log(1 + step), divided by its width: the
mean of bits per character, and of BLEU, where every doubling of the updates counts as much. Seeds are averaged. Writes
table.md, map.json and map.png to DIR, and prints the tables.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
from collections.abc import Sequence
from itertools import pairwise, product
from pathlib import Path
from statistics import fmean

from finished_runs import exit_code
from regime_map import Cell, Measure, write
from subgraft.base.errors import UserError
from subgraft.config.experiment import Experiment
from subgraft.config.loading import load
from subgraft.experiments.pipeline import Pipeline
from subgraft.orchestration.store.home import default_home
from subgraft.orchestration.store.store import Store
from subgraft.training.progress import CURVE

# What is measured, as a curve has it.
MEASURES = {"bits_per_character": Measure("bits per character", 3, low=True), "bleu": Measure("dev BLEU", 2)}


def area(points: Sequence[tuple[int, float]]) -> float:
    """The mean of a curve of (step, value) over log(1 + step), by trapezoids. Raises ValueError for a single step."""
    if len(points) < 2:
        raise ValueError("a curve of one step has no area")
    at = [(math.log1p(step), value) for step, value in points]
    whole = sum((right - left) * (before + after) / 2 for (left, before), (right, after) in pairwise(at))
    return whole / (at[-1][0] - at[0][0])


def cells(config: Path, overrides: Sequence[str], pairs: Sequence[int], rates: Sequence[float]) -> list[Cell]:
    """Of every system and setting that has been finetuned, in the order of the configuration. Raises UserError."""
    store, results = Store(default_home()), list[Cell]()
    for count, rate in product(pairs, rates):
        changes = [*overrides, f"finetune.max_train_examples={count}", f"finetune.embedding_learning_rate={rate}"]
        experiment = load(config, Experiment, changes)
        curves: dict[str, list[Path]] = {system.name: [] for system in experiment.systems}
        for steps in Pipeline(experiment, config.absolute().parent).systems:
            if store.find(steps.finetune) is not None:
                curves[steps.system.name].append(store.artifact(steps.finetune) / CURVE)
        results += [Cell(system, count, rate, len(paths), _areas(paths)) for system, paths in curves.items() if paths]
    if not results:
        raise UserError("none of these finetunings is in the store", where=str(config), hint="Run them first.")
    return results


def _areas(paths: Sequence[Path]) -> dict[str, float]:
    curves = [json.loads(path.read_text()) for path in paths]
    return {
        name: fmean(area([(point["step"], point["values"][name]) for point in curve]) for curve in curves)
        for name in MEASURES
    }


def main(arguments: Sequence[str] | None = None) -> int:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("config", type=Path, metavar="CONFIG")
    options.add_argument("overrides", nargs="*", metavar="key=value")
    options.add_argument("--pairs", type=int, nargs="+", required=True)
    options.add_argument("--table-rates", type=float, nargs="+", required=True, help="0 is frozen tables")
    options.add_argument("--out", type=Path, required=True, metavar="DIR")
    args = options.parse_args(arguments)

    def answer() -> None:
        results = cells(args.config, args.overrides, args.pairs, args.table_rates)
        print(write(results, MEASURES, ", mean over log(1 + updates)", args.out), end="")

    return exit_code("area_under_curve", answer)


if __name__ == "__main__":
    sys.exit(main())
