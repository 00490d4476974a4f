"""Curves of test BLEU over one setting: the number of pairs, of pretraining languages or of pretraining steps.

    python studies/curves.py CONFIG KEY VALUE… --commands [--change key=value] | sh
    python studies/curves.py CONFIG KEY VALUE… [--change key=value] --out DIR

With --commands it prints a `subgraft run CONFIG KEY=VALUE` for each value, which make the results; without, it reads
what they left in the store, trains nothing, and leaves out what is missing. KEY is a setting as in an override, for
example finetune.max_train_examples, pretrain.max_steps, or upstream.corpus with the names of corpora in more and more
languages. A line is a system on a direction, or on the test set of an experiment without any; seeds are averaged.
Writes results.jsonl, table.md and curves.png to DIR (mBART; Liu et al. 2020, sections 3.3 and 3.4).
"""

from __future__ import annotations

import argparse
import json
import shlex
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean

from finished_runs import exit_code, write_results
from subgraft.base.errors import UserError
from subgraft.config.experiment import Experiment
from subgraft.config.loading import load
from subgraft.evaluation.reporting.drawing import SMALL, looks, new_figure, png
from subgraft.experiments.pipeline import Pipeline
from subgraft.orchestration.store.home import default_home
from subgraft.orchestration.store.step import Step
from subgraft.orchestration.store.store import Store

MISSING = "–"


@dataclass(frozen=True)
class Result:
    """A system on a direction under one value of the setting. bleu: the mean over these seeds."""

    value: str
    system: str
    direction: str
    seeds: int
    bleu: float


def results(config: Path, key: str, values: Sequence[str], changes: Sequence[str]) -> list[Result]:
    """Of every system and direction that has been evaluated. Raises UserError if there are none."""
    store, measured = Store(default_home()), list[Result]()
    for value in values:
        experiment = load(config, Experiment, [*changes, f"{key}={value}"])
        scores: dict[tuple[str, str], list[float]] = {}
        for steps in Pipeline(experiment, config.absolute().parent).systems:
            evaluations: Mapping[str, Step] = steps.directions or {experiment.languages.name: steps.evaluate}
            for direction, step in evaluations.items():
                if store.find(step) is not None:
                    scores.setdefault((steps.system.name, direction), []).append(_bleu(store.path(step)))
        measured += [Result(value, *line, len(each), fmean(each)) for line, each in scores.items()]
    if not measured:
        raise UserError("none of these systems has been evaluated", where=str(config), hint="Run them: --commands.")
    return measured


def _bleu(evaluated: Path) -> float:
    return float(json.loads((evaluated / "evaluation.json").read_text())["scores"]["BLEU"]["value"])


def as_markdown(measured: Sequence[Result], key: str, values: Sequence[str]) -> str:
    """A row for each system and direction, a column for each value."""
    lines = [f"| {key} | " + " | ".join(values) + " |", "|---|" + "---:|" * len(values)]
    for name, curve in by_line(measured).items():
        cells = (f"{curve[value]:.2f}" if value in curve else MISSING for value in values)
        lines.append(f"| {name} | " + " | ".join(cells) + " |")
    return "\n".join(lines) + "\n"


def by_line(measured: Sequence[Result]) -> dict[str, dict[str, float]]:
    """The BLEU of each line by value."""
    lines: dict[str, dict[str, float]] = {}
    for each in measured:
        lines.setdefault(f"{each.system} on {each.direction}", {})[each.value] = each.bleu
    return lines


def draw(measured: Sequence[Result], key: str, values: Sequence[str]) -> bytes:
    """A line for each system and direction; numbers are on a logarithmic axis, other values evenly spaced."""
    numbers = _numbers(values)
    places = dict(zip(values, numbers or range(len(values)), strict=True))
    lines = by_line(measured)
    shown = looks(list(lines), None)
    with new_figure(9, 4.6) as figure:
        panel = figure.subplots()
        for name, curve in lines.items():
            at = [value for value in values if value in curve]
            panel.plot([places[value] for value in at], [curve[value] for value in at], label=name, **shown[name].line)
        if numbers is not None:
            panel.set_xscale("log")
        panel.set_xticks(list(places.values()), list(values))
        panel.minorticks_off()
        panel.set(xlabel=key, ylabel="test BLEU")
        panel.legend(fontsize=SMALL)
        return png(figure)


def _numbers(values: Sequence[str]) -> list[float] | None:
    try:
        numbers = [float(value) for value in values]
    except ValueError:
        return None
    return numbers if min(numbers) > 0 else None


def main(arguments: Sequence[str] | None = None) -> int:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("config", type=Path, metavar="CONFIG")
    options.add_argument("key", metavar="KEY")
    options.add_argument("values", nargs="+", metavar="VALUE")
    options.add_argument("--change", action="append", default=[], metavar="key=value", help="of all runs")
    form = options.add_mutually_exclusive_group(required=True)
    form.add_argument("--commands", action="store_true", help="print the commands that make the results")
    form.add_argument("--out", type=Path, metavar="DIR")
    args = options.parse_args(arguments)

    def answer() -> None:
        if args.commands:
            for value in args.values:
                print(shlex.join(["subgraft", "run", str(args.config), *args.change, f"{args.key}={value}"]))
            return
        measured = results(args.config, args.key, args.values, args.change)
        write_results(measured, as_markdown(measured, args.key, args.values), args.out)
        (args.out / "curves.png").write_bytes(draw(measured, args.key, args.values))

    return exit_code("curves", answer)


if __name__ == "__main__":
    sys.exit(main())
