"""Do systems gain where sources are unlike their references, or only where a source is half a translation already?

    python studies/source_similarity.py configs/few-pairs-on-a-translator.yaml [key=value …] --limits 30 --out DIR

Test sentences are split by the chrF of the source itself against the reference: documentation keeps code and names in
every language. Reads the outputs that `subgraft run CONFIG …` has left in the store, and trains nothing. Scores of a
system are means over its seeds. Writes results.jsonl and table.md to DIR, and prints the table.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from statistics import fmean

from finished_runs import exit_code, write_results
from subgraft.base.errors import UserError
from subgraft.config.experiment import Experiment
from subgraft.config.loading import load
from subgraft.config.settings_base import MetricName
from subgraft.evaluation.metrics.scores import corpus_scores
from subgraft.evaluation.metrics.sentence_statistics import score_sums, sentence_statistics
from subgraft.experiments.pipeline import Pipeline
from subgraft.orchestration.store.home import default_home
from subgraft.orchestration.store.store import Store
from subgraft.pipeline.artifacts import read_lines

COPY = "the source itself"
ABOVE_ALL = 101.0  # chrF
METRICS: tuple[MetricName, ...] = ("BLEU", "chrF")


@dataclass(frozen=True)
class Part:
    """A system's scores on the sentences whose sources have a chrF of `low` or more, and less than `high`."""

    system: str
    low: float
    high: float
    sentences: int
    bleu: float
    chrf: float


@dataclass(frozen=True)
class Outputs:
    """Of one test set: sources, references, and the outputs of each system, by seed."""

    sources: Sequence[str]
    references: Sequence[str]
    systems: Mapping[str, Sequence[Sequence[str]]]
    language: str


def read(config: Path, overrides: Sequence[str]) -> Outputs:
    """What was evaluated. Raises UserError."""
    store, experiment = Store(default_home()), load(config, Experiment, overrides)
    systems: dict[str, list[Sequence[str]]] = {}
    texts: dict[str, Sequence[str]] = {}
    for steps in Pipeline(experiment, config.absolute().parent).systems:
        if store.find(steps.evaluate) is None:
            continue
        evaluated = store.artifact(steps.evaluate)
        texts = {name: read_lines(evaluated / f"{name}.txt") for name in ("sources", "references", "hypotheses")}
        systems.setdefault(steps.system.name, []).append(texts["hypotheses"])
    if not systems:
        raise UserError("none of these systems has been evaluated", where=str(config), hint="Run them first.")
    return Outputs(texts["sources"], texts["references"], systems, experiment.languages.target)


def parts(outputs: Outputs, limits: Sequence[float]) -> list[Part]:
    """Every system, and the sources as if they were translations, on each part of the test set and on all of it."""
    similarity = _similarity(outputs)
    bounds = [(0.0, ABOVE_ALL), *pairwise([0.0, *sorted(limits), ABOVE_ALL])]
    results = []
    for low, high in bounds:
        places = [place for place, value in enumerate(similarity) if low <= value < high]
        if not places:
            continue
        for name, seeds in ((COPY, [outputs.sources]), *outputs.systems.items()):
            scores = [_scores(outputs, texts, places) for texts in seeds]
            bleu, chrf = (fmean(each[metric] for each in scores) for metric in METRICS)
            results.append(Part(name, low, high, len(places), bleu, chrf))
    return results


def _similarity(outputs: Outputs) -> list[float]:
    """The chrF of each source against its reference."""
    counts = sentence_statistics("chrF", outputs.sources, outputs.references, outputs.language)
    return [float(value) for value in score_sums("chrF", counts)]


def _scores(outputs: Outputs, texts: Sequence[str], places: Sequence[int]) -> dict[str, float]:
    chosen, references = ([side[place] for place in places] for side in (texts, outputs.references))
    scores = corpus_scores(chosen, references, outputs.language, METRICS)
    return {name: score.value for name, score in scores.items()}


def table(results: Sequence[Part]) -> str:
    """As Markdown: BLEU and chrF of each system, a column for each part."""
    columns = list(dict.fromkeys((each.low, each.high) for each in results))
    cells = {(each.system, each.low, each.high): each for each in results}
    heads = [f"{_named(low, high)}: {cells[COPY, low, high].sentences} sentences" for low, high in columns]
    lines = [f"| | {' | '.join(heads)} |", "|---" * (len(heads) + 1) + "|"]
    for system in dict.fromkeys(each.system for each in results):
        values = [f"{cells[system, *column].bleu:.2f}, {cells[system, *column].chrf:.1f}" for column in columns]
        lines.append(f"| {system} | {' | '.join(values)} |")
    return "\n".join(lines) + "\n"


def _named(low: float, high: float) -> str:
    if high == ABOVE_ALL:
        return f"{low:g} or more" if low else "all"
    return f"{low:g} to {high:g}" if low else f"less than {high:g}"


def main(arguments: Sequence[str] | None = None) -> int:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("config", type=Path, metavar="CONFIG")
    options.add_argument("overrides", nargs="*", metavar="key=value")
    options.add_argument("--limits", type=float, nargs="+", default=[30.0], help="chrF at which sentences are split")
    options.add_argument("--out", type=Path, required=True, metavar="DIR")
    args = options.parse_intermixed_args(arguments)

    def answer() -> None:
        results = parts(read(args.config, args.overrides), args.limits)
        write_results(results, table(results), args.out)

    return exit_code("source_similarity", answer)


if __name__ == "__main__":
    sys.exit(main())
