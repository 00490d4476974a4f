"""Results of systems with few pairs, for numbers of pairs and rates of the tables: a map.

    python studies/few_pairs.py configs/domain-text.yaml [key=value …] --corpus itdocs --pairs 500 2000 \
        --table-rates 0 4e-3 --out DIR

Reads what `subgraft run CONFIG corpora.CORPUS.limit.train=… finetune.embedding_learning_rate=…` has left in the store,
and trains nothing. Dev bits per character are those of the weights that were kept; BLEU and chrF are the test set's.
Seeds are averaged. Writes table.md, map.json and map.png to DIR, and prints the tables.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from itertools import product
from pathlib import Path
from statistics import fmean

from finished_runs import exit_code
from regime_map import Cell, Measure, write
from subgraft.base.errors import UserError
from subgraft.config.experiment import Experiment
from subgraft.config.loading import load
from subgraft.experiments.pipeline import Pipeline
from subgraft.experiments.steps.system import SystemSteps
from subgraft.orchestration.store.home import default_home
from subgraft.orchestration.store.store import Store
from subgraft.training.progress import selected_weights

MEASURES = {
    "chrF": Measure("test chrF", 1),
    "BLEU": Measure("test BLEU", 2),
    "bits": Measure("dev bits per character", 3, low=True),
}


def cells(
    config: Path, overrides: Sequence[str], corpus: str, pairs: Sequence[int], rates: Sequence[float]
) -> list[Cell]:
    """Of every system and setting that has been evaluated, in the order of the configuration. Raises UserError."""
    store, results = Store(default_home()), list[Cell]()
    for count, rate in product(pairs, rates):
        changes = [f"corpora.{corpus}.limit.train={count}", f"finetune.embedding_learning_rate={rate}"]
        experiment = load(config, Experiment, [*overrides, *changes])
        reached: dict[str, list[dict[str, float]]] = {system.name: [] for system in experiment.systems}
        for steps in Pipeline(experiment, config.absolute().parent).systems:
            if store.find(steps.evaluate) is not None:
                reached[steps.system.name].append(_reached(store, steps))
        results += [_cell(system, count, rate, values) for system, values in reached.items() if values]
    if not results:
        raise UserError("none of these systems has been evaluated", where=str(config), hint="Run them first.")
    return results


def _reached(store: Store, steps: SystemSteps) -> dict[str, float]:
    evaluated = json.loads((store.artifact(steps.evaluate) / "evaluation.json").read_text())["scores"]
    selected = selected_weights(store.artifact(steps.finetune), steps.finetune.stage.training.select)
    return {"bits": selected.bits, **{name: evaluated[name]["value"] for name in ("BLEU", "chrF")}}


def _cell(system: str, pairs: int, rate: float, values: Sequence[dict[str, float]]) -> Cell:
    return Cell(system, pairs, rate, len(values), {name: fmean(each[name] for each in values) for name in MEASURES})


def main(arguments: Sequence[str] | None = None) -> int:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("config", type=Path, metavar="CONFIG")
    options.add_argument("overrides", nargs="*", metavar="key=value")
    options.add_argument("--corpus", required=True, help="the task's, whose training pairs are limited")
    options.add_argument("--pairs", type=int, nargs="+", required=True)
    options.add_argument("--table-rates", type=float, nargs="+", required=True, help="0 is frozen tables")
    options.add_argument("--out", type=Path, required=True, metavar="DIR")
    args = options.parse_args(arguments)

    def answer() -> None:
        results = cells(args.config, args.overrides, args.corpus, args.pairs, args.table_rates)
        print(write(results, MEASURES, "", args.out), end="")

    return exit_code("few_pairs", answer)


if __name__ == "__main__":
    sys.exit(main())
