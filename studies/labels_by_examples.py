"""Scores of systems that predict labels, by the number of training examples, next to a linear model of word n-grams.

    python studies/labels_by_examples.py configs/polarity.yaml [key=value …] --examples 85 852 all --out DIR

Reads the systems that `subgraft run CONFIG finetune.max_train_examples=…` has left in the store. The baseline is
trained here, on the same examples of the corpus: TF-IDF of words and pairs of words, and a logistic regression with its
C by cross-validation (scikit-learn), for tasks of one class of one or two texts. Writes results.jsonl and table.md to
DIR, and prints the table: means over seeds with 95 % bands by Student's t.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from finished_runs import exit_code, write_results
from seeds import mean_with_band
from subgraft.base.errors import UserError
from subgraft.config.experiment import Experiment
from subgraft.config.loading import load
from subgraft.data.text.corpus import Corpus
from subgraft.experiments.pipeline import Pipeline
from subgraft.orchestration.store.home import default_home
from subgraft.orchestration.store.store import Store
from subgraft.training.objectives.compute.interface import selected_examples
from subgraft.training.progress import selected_weights

ALL, BASELINE = "all", "TF-IDF, logistic regression"


@dataclass(frozen=True)
class Point:
    """A system trained on so many examples. scores: by metric, one a seed.  steps: at which training was best."""

    system: str
    examples: str
    scores: dict[str, list[float]]
    steps: list[int]


def points(config: Path, overrides: Sequence[str], sizes: Sequence[str]) -> Iterator[Point]:
    """Every system and size that has been evaluated, and the baseline of each size that has any."""
    store = Store(default_home())
    for size in sizes:
        own = [] if size == ALL else [f"finetune.max_train_examples={size}"]
        experiment = load(config, Experiment, [*overrides, *own])
        systems = Pipeline(experiment, config.absolute().parent).systems
        done = [each for each in systems if store.find(each.evaluate) is not None]
        for name in dict.fromkeys(each.system.name for each in done):
            runs = [each for each in done if each.system.name == name]
            evaluations = [json.loads((store.artifact(each.evaluate) / "evaluation.json").read_text()) for each in runs]
            scores = {
                metric: [evaluation["scores"][metric]["value"] for evaluation in evaluations]
                for metric in evaluations[0]["scores"]
            }
            selected = [
                selected_weights(store.artifact(each.finetune), experiment.finetune.select).step for each in runs
            ]
            yield Point(name, size, scores, selected)
        if done and experiment.task in ("classification", "pair-classification"):
            corpus = Corpus.open(store.artifact(done[0].finetune.inputs["corpus"]))
            yield Point(BASELINE, size, baseline(corpus, experiment), [])


def baseline(corpus: Corpus, experiment: Experiment) -> dict[str, list[float]]:
    """Test scores of the linear model on the training examples of each seed."""
    from sklearn.feature_extraction.text import TfidfVectorizer
    from sklearn.linear_model import LogisticRegressionCV
    from sklearn.metrics import accuracy_score, f1_score
    from sklearn.model_selection import StratifiedKFold
    from sklearn.pipeline import make_pipeline

    def read(split: str) -> tuple[list[str], list[str]]:
        texts = [field.name for field in corpus.fields if field.kind == "text"]
        sides = zip(*(corpus.lines(split, name) for name in texts), strict=True)
        return [" ".join(side) for side in sides], list(corpus.lines(split, "label"))

    texts, labels = read("train")
    test, wanted = read("test")
    scores: dict[str, list[float]] = {"accuracy": [], "F1 macro": []}
    for seed in experiment.seeds:
        places = selected_examples(len(texts), experiment.finetune, seed)
        chosen = range(len(texts)) if places is None else places.tolist()
        seen = [labels[place] for place in chosen]
        folds = StratifiedKFold(max(2, min(5, min(map(seen.count, set(seen))))))
        model = make_pipeline(
            TfidfVectorizer(ngram_range=(1, 2), sublinear_tf=True),
            LogisticRegressionCV(cv=folds, max_iter=1000, random_state=seed),
        )
        predicted = model.fit([texts[place] for place in chosen], seen).predict(test)
        scores["accuracy"].append(100 * float(accuracy_score(wanted, predicted)))
        scores["F1 macro"].append(100 * float(f1_score(wanted, predicted, average="macro")))
        if not experiment.finetune.resample_subset:  # every seed has the same examples
            break
    return scores


def table(results: Sequence[Point]) -> str:
    """Markdown, a row for each system and number of examples."""
    metrics = [metric for metric in results[0].scores if metric in ("accuracy", "F1 macro", "token F1", "exact match")]
    rows = [["examples", "system", "seeds", *metrics, "best step"], ["--:", "---", *["--:"] * (len(metrics) + 2)]]
    for point in results:
        seeds = len(next(iter(point.scores.values())))
        steps = f"{min(point.steps)}–{max(point.steps)}" if point.steps else "–"
        shown = [mean_with_band(point.scores[metric]) if metric in point.scores else "–" for metric in metrics]
        rows.append([point.examples, point.system, str(seeds), *shown, steps])
    return "".join(f"| {' | '.join(row)} |\n" for row in rows)


def main(arguments: Sequence[str] | None = None) -> int:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("config", type=Path, metavar="CONFIG")
    options.add_argument("overrides", nargs="*", metavar="key=value")
    options.add_argument("--examples", nargs="+", required=True, metavar="N", help="numbers of examples, or all")
    options.add_argument("--out", type=Path, required=True, metavar="DIR")
    args = options.parse_args(arguments)

    def answer() -> None:
        results = list(points(args.config, args.overrides, args.examples))
        if not results:
            raise UserError("none of these systems has been evaluated", where=str(args.config), hint="Run them first.")
        write_results(results, table(results), args.out)

    return exit_code("labels_by_examples", answer)


if __name__ == "__main__":
    sys.exit(main())
