"""Do scores depend on the engine? Finished models of a store decode their test sets again, by the other engine.

    python studies/engines.py [--home STORE] [--least 100] [--only TEXT] --out FILE.json

Every evaluation of encoder-decoders in the store is looked at that has at least so many sentences (`--least`) and
whose model is still there: its outputs, which transformers or CTranslate2 searched for, are compared with those of the
other of the two under the same settings. Prints a line as soon as a model is done, so a study that is ended has
something to say, and carries on where it ended.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import torch

from subgraft.config.settings_base import DecodingEngine, MetricName
from subgraft.evaluation.metrics.scores import Score, corpus_scores
from subgraft.modeling.bundle import Bundle
from subgraft.modeling.inference.ctranslate2_search import FastTranslator
from subgraft.orchestration.store.home import default_home
from subgraft.orchestration.store.record import Record
from subgraft.orchestration.store.store import Store
from subgraft.pipeline.compute.outputs import translator_by_engine
from subgraft.pipeline.stages.evaluation import EvaluateStage

METRICS: tuple[MetricName, ...] = ("BLEU", "chrF")
OTHER: dict[DecodingEngine, DecodingEngine] = {"transformers": "ctranslate2", "ctranslate2": "transformers"}


@dataclass(frozen=True)
class Compared:
    """One model by both engines. same: outputs that are equal; again: how many CTranslate2 left to transformers, where
    it is what was run here; processor: seconds of the cores for the outputs made here."""

    fingerprint: str
    name: str
    stored: DecodingEngine
    sentences: int
    same: int
    scores: dict[DecodingEngine, dict[str, float]]
    signatures: dict[str, str]
    again: int | None
    processor: float

    def change(self, metric: str) -> float:
        """How much more CTranslate2's outputs score."""
        return self.scores["ctranslate2"][metric] - self.scores["transformers"][metric]


def compared(store: Store, record: Record) -> Compared:
    """The outputs that a record's artifact has, and those of the other engine."""
    recipe, there = EvaluateStage.model_validate(record.recipe), _artifact(store, record.fingerprint)
    sources, references, stored = (_lines(there / f"{name}.txt") for name in ("sources", "references", "hypotheses"))
    engine = recipe.evaluation.engine
    settings = recipe.evaluation.model_copy(update={"engine": OTHER[engine]})
    translate = translator_by_engine(Bundle.load(_model(store, record)), recipe.languages, settings)
    started = time.process_time()
    generated = translate(sources, settings.batch_size)
    processor = time.process_time() - started
    language = recipe.languages.target
    outputs = {engine: stored, OTHER[engine]: generated}
    scores = {name: corpus_scores(lines, references, language, METRICS) for name, lines in outputs.items()}
    return Compared(
        record.fingerprint,
        record.name,
        engine,
        len(sources),
        sum(a == b for a, b in zip(stored, generated, strict=True)),
        {name: {metric: score.value for metric, score in each.items()} for name, each in scores.items()},
        _signatures(scores[engine]),
        translate.again if isinstance(translate, FastTranslator) else None,
        processor,
    )


def chosen(store: Store, least: int, only: str) -> list[Record]:
    """Evaluations of encoder-decoders with enough sentences, whose models are there, by name."""
    records = [record for record in store.records(EvaluateStage.stage_name) if only in record.name]
    return sorted((record for record in records if _is_of_use(store, record, least)), key=lambda record: record.name)


def table(rows: Sequence[Compared]) -> str:
    """A line for each model, and one for all of them."""
    lines = [
        "| model | sentences | the same | BLEU: transformers | CTranslate2 | chrF: transformers | CTranslate2 |",
        "|---|---|---|---|---|---|---|",
    ]
    for row in rows:
        cells = [f"{row.scores[engine][metric]:.2f}" for metric in METRICS for engine in OTHER]
        lines.append(f"| {row.name} | {row.sentences} | {row.same} | {' | '.join(cells)} |")
    changes = {metric: [row.change(metric) for row in rows] for metric in METRICS}
    differences = ", ".join(
        f"{metric} changes by {statistics.fmean(each):+.3f} on average, by {max(each, key=abs):+.3f} at most"
        for metric, each in changes.items()
    )
    same, sentences = sum(row.same for row in rows), sum(row.sentences for row in rows)
    signatures = "\n".join(f"{metric} {signature}" for metric, signature in rows[0].signatures.items())
    return "\n".join([*lines, "", f"{same} of {sentences} outputs are the same; {differences}.", signatures])


def main(arguments: Sequence[str] | None = None) -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--home", type=Path)
    options.add_argument("--least", type=int, default=100)
    options.add_argument("--only", default="", metavar="TEXT", help="evaluations whose name has it")
    options.add_argument("--threads", type=int, default=1)
    options.add_argument("--out", type=Path, required=True)
    args = options.parse_args(arguments)
    torch.set_num_threads(args.threads)
    store = Store(args.home or default_home())
    rows = [Compared(**row) for row in json.loads(args.out.read_text())] if args.out.exists() else []
    done = {row.fingerprint for row in rows}
    for record in chosen(store, args.least, args.only):
        if record.fingerprint not in done:
            rows.append(compared(store, record))
            args.out.write_text(json.dumps([asdict(row) for row in rows], indent=1) + "\n")
            print(f"{record.name}: {rows[-1].same} of {rows[-1].sentences} the same", flush=True)
    print(table(rows) if rows else "no evaluation of that kind is in the store")


def _is_of_use(store: Store, record: Record, least: int) -> bool:
    recipe = EvaluateStage.model_validate(record.recipe)
    if recipe.objective.kind != "translation" or not _model(store, record).is_dir():
        return False
    return len(_lines(_artifact(store, record.fingerprint) / "sources.txt")) >= least


def _artifact(store: Store, fingerprint: str) -> Path:
    return store.home / "store" / EvaluateStage.stage_name / fingerprint


def _model(store: Store, record: Record) -> Path:
    """Where the model is that was evaluated; a path that is not there, where it has been removed."""
    fingerprint = record.inputs["model"]["fingerprint"]
    return next((store.home / "store").glob(f"*/{fingerprint}"), store.home / "absent")


def _signatures(scores: dict[str, Score]) -> dict[str, str]:
    return {metric: score.signature for metric, score in scores.items()}


def _lines(path: Path) -> list[str]:
    return path.read_text(encoding="utf-8").split("\n")[:-1]


if __name__ == "__main__":
    main()
