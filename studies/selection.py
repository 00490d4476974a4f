"""Which weights of a finetuning are worth keeping: what each rule keeps, and what that is worth on the test set.

    python studies/selection.py configs/domain-text.yaml [key=value …] --test-sentences 300 --out FILE.json

Every system is finetuned as its configuration says, and at each evaluation the dev and the test set are both scored:
bits per character, and BLEU and chrF of greedy output. What the systems begin with is taken from the store, where
`subgraft run` has left it. Writes all curves, and prints what each rule keeps.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch

from finished_runs import exit_code
from subgraft.base.errors import UserError
from subgraft.config.experiment import Experiment
from subgraft.config.loading import load
from subgraft.config.runtime import Runtime
from subgraft.config.training import FinetuneSettings
from subgraft.data.text.corpus import Corpus
from subgraft.experiments.pipeline import Pipeline
from subgraft.modeling.bundle import Bundle
from subgraft.modeling.sides import tables_of
from subgraft.orchestration.store.home import default_home
from subgraft.orchestration.store.step import Step
from subgraft.orchestration.store.store import Store
from subgraft.pipeline.stages.training import FinetuneStage
from subgraft.training.objectives.compute.interface import ObjectiveInputs
from subgraft.training.objectives.compute.mixture import with_text
from subgraft.training.objectives.compute.translation import DevScores
from subgraft.training.progress import SELECTIONS
from subgraft.training.setup import run_training

Point = Mapping[str, float]
TESTED = "test_"


@dataclass(frozen=True)
class Place:
    """The context of a training that is part of no store."""

    work: Path
    runtime: Runtime
    cache: Path | None = None
    measured: Path | None = None
    command: str = ""

    def progress(self, done: int, total: int, what: str, now: str = "") -> None:
        pass

    def metrics(self, step: int, values: Mapping[str, float]) -> None:
        pass

    def warn(self, line: str) -> None:
        print(line, file=sys.stderr)

    def note(self, line: str) -> None:
        print(line, file=sys.stderr)


def curve(step: Step[FinetuneStage], store: Store, test_sentences: int) -> list[Point]:
    """The dev and test scores of a finetuning, by step."""
    recipe, inputs = step.stage, {role: store.path(source) for role, source in step.inputs.items()}
    bundle, corpus, settings = Bundle.load(inputs["model"]), Corpus.open(inputs["corpus"]), recipe.training
    request = ObjectiveInputs(bundle, corpus, recipe.languages, settings, recipe.seed)
    text = recipe.objective.finetuning(request, settings)
    if recipe.text_objective is not None:
        monolingual = replace(request, corpus=Corpus.open(inputs[recipe.text_role]))
        text = with_text(text, recipe.text_objective, monolingual, settings)
    dev, tested = text.dev_scores(bundle), _tested(bundle, corpus, recipe, test_sentences)
    with tempfile.TemporaryDirectory() as work:
        outcome = run_training(
            text.loss(bundle),
            {"loss": 1.0},
            text,
            settings,
            Place(Path(work), Runtime()),
            group="finetune",
            seed=recipe.seed,
            evaluate=lambda: {**dev(), **{TESTED + name: value for name, value in tested().items()}},
            tables=list(tables_of(bundle.model, recipe.embedding_learning_rate_sides).values()),
        )
    return [{"step": point.step, **point.values} for point in outcome.curve]


def _tested(bundle: Bundle, corpus: Corpus, recipe: FinetuneStage, sentences: int) -> DevScores:
    settings: FinetuneSettings = recipe.training.model_copy(update={"dev_sentences": sentences})
    return DevScores(bundle, list(corpus.pairs("test")), recipe.languages, settings)


def selected(points: Sequence[Point]) -> dict[str, Point]:
    """The point that each rule selects; rules of other tasks' scores are left out."""
    best: dict[str, Point] = {}
    for name, rule in SELECTIONS.items():
        if rule is None or rule.score in points[-1]:
            best[name] = points[-1] if rule is None else max(points, key=rule.signed_score)
    return best


def as_markdown(curves: Mapping[str, Sequence[Point]]) -> str:
    lines = ["| system | " + " | ".join(f"{rule}: step, test chrF, BLEU" for rule in SELECTIONS) + " |"]
    lines += ["|---" * (len(SELECTIONS) + 1) + "|"]
    for system, points in curves.items():
        cells = [
            f"{point['step']:.0f}, {point[TESTED + 'chrf']:.1f}, {point[TESTED + 'bleu']:.2f}"
            for point in selected(points).values()
        ]
        lines.append(f"| {system} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def main(arguments: Sequence[str] | None = None) -> int:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("config", type=Path, metavar="CONFIG")
    options.add_argument("overrides", nargs="*", metavar="key=value")
    options.add_argument("--test-sentences", type=int, default=300)
    options.add_argument("--threads", type=int, default=1)
    options.add_argument("--out", type=Path, required=True, metavar="FILE")
    args = options.parse_args(arguments)
    torch.set_num_threads(args.threads)

    def answer() -> None:
        store, curves = Store(default_home()), dict[str, Any]()
        experiment = load(args.config, Experiment, args.overrides)
        for steps in Pipeline(experiment, args.config.absolute().parent).systems:
            lacking = [source.name for source in steps.finetune.inputs.values() if store.find(source) is None]
            if lacking:
                raise UserError(f"not in the store: {', '.join(lacking)}", hint="Run the configuration first.")
            curves[f"{steps.system.name} seed {steps.seed}"] = curve(steps.finetune, store, args.test_sentences)
            args.out.write_text(json.dumps(curves, indent=1) + "\n")
        print(as_markdown(curves))

    return exit_code("selection", answer)


if __name__ == "__main__":
    sys.exit(main())
