"""Sentences per second of both engines of evaluation, at natural ends, with their outputs compared.

    python benchmarks/decoding.py --model MODEL --sources FILE --references FILE --languages en-fr [--json OUT]

MODEL is a directory, such as a finetuned model of the store; a system's evaluation next to it has sources.txt and
references.txt. The engines take turns in every round, and their ratio is of the processor's time within a round, which
other work on the machine changes least. CTranslate2's time is given twice: with what it leaves to transformers, as an
evaluation needs it, and without, as its speed is measured. Giving it the weights is what each dev score costs it.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import torch
from rich.table import Table

from subgraft.base.terminal import Terminal
from subgraft.config.corpora import Languages
from subgraft.config.evaluation import MeasurementSettings
from subgraft.config.settings_base import DecodingEngine
from subgraft.evaluation.metrics.scores import corpus_scores
from subgraft.modeling.bundle import Bundle
from subgraft.modeling.exporting.ctranslate2 import fast_translator
from subgraft.modeling.inference.ctranslate2_search import FastTranslator
from subgraft.modeling.inference.translate import Translator
from subgraft.pipeline.compute.outputs import translator_by_engine

BATCH = 32
ALONE = "its search alone"
HEADINGS = ("beam", "engine", "sent./s", "× processor's time", "the same", "BLEU", "cut", "left to transformers")


@dataclass(frozen=True)
class Pass:
    """What one engine does of the sentences. processor: seconds of its cores; again: what it leaves to transformers."""

    processor: float
    seconds: float
    texts: list[str]
    unfinished: int
    again: int | None


@dataclass(frozen=True)
class Row:
    """One engine at one beam: medians over rounds. ratio: of transformers' processor time to its own.

    same, bleu: of outputs that are whole.
    """

    beam: int
    engine: str
    sentences_per_second: float
    ratio: float
    same: int | None
    bleu: float | None
    unfinished: int
    again: int | None


def main() -> None:
    args = _arguments()
    torch.set_num_threads(args.threads)
    sources, references = (_lines(path)[: args.sentences] for path in (args.sources, args.references))
    languages = Languages(**dict(zip(("source", "target"), args.languages.split("-"), strict=True)))
    bundle = Bundle.load(args.model)
    rows = [row for beam in args.beams for row in _rows(bundle, languages, beam, sources, references, args.rounds)]
    loading = _processor(lambda: fast_translator(bundle, languages, beam=1, max_length_ratio=2.5, check=False))
    table = Table(*HEADINGS)
    for row in rows:
        again = "–" if row.again is None else str(row.again)
        whole = ("–", "–") if row.bleu is None else (f"{row.same}/{len(sources)}", f"{row.bleu:.2f}")
        cells = (f"{row.sentences_per_second:.1f}", f"{row.ratio:.2f}", *whole)
        table.add_row(str(row.beam), row.engine, *cells, str(row.unfinished), again)
    size = bundle.model.num_parameters()
    summary = (
        f"{len(sources)} sentences, batches of {BATCH}, {size / 1e6:.1f} M parameters; {loading:.2f} s for the weights"
    )
    Terminal().print(table, summary)
    if args.json:
        results = {
            "sentences": len(sources),
            "parameters": size,
            "loading": loading,
            "rows": [asdict(row) for row in rows],
        }
        args.json.write_text(json.dumps(results, indent=1) + "\n")


def _arguments() -> argparse.Namespace:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--model", type=Path, required=True)
    options.add_argument("--sources", type=Path, required=True)
    options.add_argument("--references", type=Path, required=True)
    options.add_argument("--languages", required=True, metavar="SOURCE-TARGET")
    options.add_argument("--sentences", type=int, default=200)
    options.add_argument("--beams", type=int, nargs="+", default=[1, 4])
    options.add_argument("--rounds", type=int, default=3)
    options.add_argument("--threads", type=int, default=2)
    options.add_argument("--json", type=Path)
    return options.parse_args()


def _lines(path: Path) -> list[str]:
    return path.read_text(encoding="utf-8").splitlines()


def _rows(
    bundle: Bundle,
    languages: Languages,
    beam: int,
    sources: Sequence[str],
    references: Sequence[str],
    rounds: int,
) -> list[Row]:
    engines: tuple[DecodingEngine, ...] = ("transformers", "ctranslate2")
    ways: dict[str, Translator] = {
        name: translator_by_engine(bundle, languages, MeasurementSettings(beam=beam, engine=name)) for name in engines
    }
    alone = translator_by_engine(bundle, languages, MeasurementSettings(beam=beam, engine="ctranslate2"))
    assert isinstance(alone, FastTranslator)
    alone.completes = False
    every: dict[str, Translator] = {**ways}
    if beam > 1:
        every[ALONE] = alone
    for translate in every.values():
        translate(sources[:BATCH], BATCH)
    passes = [{name: _pass(translate, sources) for name, translate in every.items()} for _ in range(rounds)]
    return [_row(beam, name, passes, references, languages.target) for name in every]


def _row(beam: int, name: str, passes: Sequence[Mapping[str, Pass]], references: Sequence[str], language: str) -> Row:
    first, own = passes[0]["transformers"], passes[0][name]
    whole = name != ALONE
    return Row(
        beam,
        name,
        statistics.median(len(references) / each[name].seconds for each in passes),
        statistics.median(each["transformers"].processor / each[name].processor for each in passes),
        sum(a == b for a, b in zip(first.texts, own.texts, strict=True)) if whole else None,
        corpus_scores(own.texts, references, language, ["BLEU"])["BLEU"].value if whole else None,
        own.unfinished,
        own.again,
    )


def _pass(translate: Translator, sources: Sequence[str]) -> Pass:
    systems: list[str] = []
    started = time.perf_counter()
    processor = _processor(lambda: systems.extend(translate(sources, BATCH)))
    seconds = time.perf_counter() - started
    again = translate.again if isinstance(translate, FastTranslator) else None
    return Pass(processor, seconds, systems, translate.unfinished, again)


def _processor(work: Callable[[], object]) -> float:
    started = time.process_time()
    work()
    return time.process_time() - started


if __name__ == "__main__":
    main()
