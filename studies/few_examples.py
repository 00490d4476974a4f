"""Results of systems with few examples of a class, by their number: curves with 95 % bands over seeds.

    python studies/few_examples.py configs/few-examples.yaml [key=value …] --examples 200 1000 4000 --out DIR

Reads what `subgraft run CONFIG finetune.max_train_examples=…` has left in the store, and trains nothing: where seeds or
sizes are missing, the picture is of those that are there. Bands are Student's t over seeds. Writes table.md,
curves.json and curves.png to DIR, and prints the table.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from finished_runs import exit_code
from seeds import band
from subgraft.base.errors import UserError
from subgraft.config.experiment import Experiment
from subgraft.config.loading import load
from subgraft.evaluation.reporting.drawing import new_figure, png
from subgraft.experiments.pipeline import Pipeline
from subgraft.orchestration.store.home import default_home
from subgraft.orchestration.store.store import Store
from subgraft.training.progress import selected_weights

MEASURES = {
    "bits_per_character": "test bits per character",
    "of_another_class": "more bits per character of another class",
    "adherence": "adherence",
}


@dataclass(frozen=True)
class Point:
    """A system with so many examples. values: of each measure, one a seed.  steps: where training was best."""

    system: str
    examples: int
    seeds: tuple[int, ...]
    values: dict[str, tuple[float, ...]]
    steps: tuple[int, ...]


def points(config: Path, overrides: Sequence[str], examples: Sequence[int]) -> list[Point]:
    """Of every system and number of examples that has been evaluated under some seed. Raises UserError."""
    store, results = Store(default_home()), list[Point]()
    for count in examples:
        experiment = load(config, Experiment, [*overrides, f"finetune.max_train_examples={count}"])
        for name in [system.name for system in experiment.systems]:
            done = [
                steps
                for steps in Pipeline(experiment, config.absolute().parent).systems
                if steps.system.name == name and store.find(steps.evaluate) is not None
            ]
            if done:
                evaluations = [
                    json.loads((store.artifact(each.evaluate) / "evaluation.json").read_text()) for each in done
                ]
                selected = [
                    selected_weights(store.artifact(each.finetune), each.finetune.stage.training.select)
                    for each in done
                ]
                values = {measure: tuple(_measured(each, measure) for each in evaluations) for measure in MEASURES}
                seeds, selected_steps = tuple(each.seed for each in done), tuple(each.step for each in selected)
                results.append(Point(name, count, seeds, values, selected_steps))
    if not results:
        raise UserError("none of these systems has been evaluated", where=str(config), hint="Run them first.")
    return results


def _measured(evaluation: dict[str, float], measure: str) -> float:
    if measure != "of_another_class":
        return evaluation[measure]
    return evaluation["bits_per_character_of_another_class"] - evaluation["bits_per_character"]


def table(results: Sequence[Point]) -> str:
    """Markdown, a row for each system and number of examples."""
    titles = ["examples", "system", "seeds", *MEASURES.values(), "updates kept"]
    rows = [titles, ["--:", "---", *["--:"] * (len(titles) - 2)]]
    for point in results:
        shown = [_shown(point.values[measure]) for measure in MEASURES]
        rows.append(
            [str(point.examples), point.system, str(len(point.seeds)), *shown, f"{min(point.steps)}–{max(point.steps)}"]
        )
    return "".join(f"| {' | '.join(row)} |\n" for row in rows)


def _shown(values: Sequence[float]) -> str:
    mean, reach = band(values)
    return f"{mean:.3f}" if reach != reach else f"{mean:.3f} ± {reach:.3f}"


def draw(results: Sequence[Point]) -> bytes:
    """A panel for each measure, a curve for each system."""
    with new_figure(12, 3.8) as figure:
        panels = figure.subplots(1, len(MEASURES))
        for panel, (measure, title) in zip(panels, MEASURES.items(), strict=True):
            for system in dict.fromkeys(point.system for point in results):
                own = [point for point in results if point.system == system]
                means, reaches = zip(*(band(point.values[measure]) for point in own), strict=True)
                sizes = [point.examples for point in own]
                (line,) = panel.plot(sizes, means, marker="o", markersize=4, label=system)
                low, high = ([m + s * r for m, r in zip(means, reaches, strict=True)] for s in (-1, 1))
                panel.fill_between(sizes, low, high, color=line.get_color(), alpha=0.18, linewidth=0)
            panel.set(xscale="log", xlabel="examples", title=title)
        panels[0].legend(frameon=False)
        return png(figure)


def main(arguments: Sequence[str] | None = None) -> int:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("config", type=Path, metavar="CONFIG")
    options.add_argument("overrides", nargs="*", metavar="key=value")
    options.add_argument("--examples", type=int, nargs="+", required=True)
    options.add_argument("--out", type=Path, required=True, metavar="DIR")
    args = options.parse_args(arguments)

    def answer() -> None:
        results = points(args.config, args.overrides, args.examples)
        args.out.mkdir(parents=True, exist_ok=True)
        (args.out / "curves.json").write_text(json.dumps([asdict(point) for point in results], indent=1) + "\n")
        (args.out / "curves.png").write_bytes(draw(results))
        (args.out / "table.md").write_text(table(results), encoding="utf-8")
        print(table(results), end="")

    return exit_code("few_examples", answer)


if __name__ == "__main__":
    sys.exit(main())
