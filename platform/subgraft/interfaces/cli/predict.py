"""subgraft predict: what a finetuned model predicts for texts."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from subgraft.base import json_io
from subgraft.base.terminal_escaping import say, write
from subgraft.data.text import reading
from subgraft.interfaces.cli.arguments import MODEL_HELP, Commands, add_languages, standard_input

if TYPE_CHECKING:
    from subgraft.training.understanding.input_forms import InputForm

WHAT = (
    "Reads an input a line and prints a prediction a line. A line is a text; a tab is between two texts, between a "
    "question and its passage, and between a text or query and its choices or candidates. Entities need JSON lines."
)


def add_to(commands: Commands) -> None:
    predict = commands.add_parser(
        "predict", help="labels, tags, answers or ranks by a finetuned model", description=WHAT
    )
    predict.add_argument("model", metavar="MODEL", help=MODEL_HELP)
    predict.add_argument("--input", type=Path, metavar="FILE", help="default: standard input")
    form = "lines of text, or JSON lines with the fields of labelled files (default: by the file's ending)"
    predict.add_argument("--format", choices=("lines", "jsonl"), help=form)
    predict.add_argument("--json", action="store_true", help="print a JSON object a line, with probabilities or scores")
    add_languages(predict, "of models with language codes; default: those the model was made for")
    predict.set_defaults(command=predict_lines)


def predict_lines(arguments: argparse.Namespace) -> None:
    from subgraft.interfaces.api.predict import asked_model  # takes seconds to load
    from subgraft.orchestration.execution.progress import counting

    asked = asked_model(arguments.model)
    path, form = arguments.input or Path("standard input"), arguments.format
    lines = reading.lines(path) if arguments.input else standard_input()
    form = form or ("jsonl" if path.name.removesuffix(".gz").endswith(".jsonl") else "lines")
    inputs = list(_inputs(lines, path, asked.form, form))  # a mistake in one is reported before weights are read
    with counting("predicting") as progress:
        predictor = asked.predictor(arguments.languages)
        predictions = list(predictor.predict(inputs, progress=lambda done: progress(done, len(inputs), "inputs")))
    for each in predictions:
        write(json.dumps(each.facts, ensure_ascii=False) if arguments.json else each.text)
    if cut := [number for number, each in enumerate(predictions, 1) if each.cut]:
        sys.stdout.flush()
        what = f"{len(cut):,} of {len(inputs):,} inputs lost their end, too long for the model"
        say(f"{what}; the first is {path}:{cut[0]}", to=sys.stderr)


def _inputs(lines: Iterable[str], path: Path, form: InputForm, written: str) -> Iterator[Any]:
    if written == "jsonl":
        for number, record in enumerate(json_io.objects(lines, path), 1):
            yield form.of_value(record, f"{path}:{number}")
        return
    for number, line in enumerate(lines, 1):
        yield form.of_line(line, f"{path}:{number}")
