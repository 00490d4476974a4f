"""subgraft predict: labels, tags, answers and ranks of a finetuned model."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from subgraft.base import json_io
from subgraft.base.errors import UserError
from subgraft.base.security.terminal_escaping import say, write
from subgraft.data.sources.labelled_files import LabelledFiles
from subgraft.data.tasks.labelled import LabelledFormat, Row
from subgraft.data.text import reading
from subgraft.interfaces.cli.arguments import (
    MODEL_HELP,
    Commands,
    ModelName,
    add_field,
    add_languages,
    input_file,
    standard_input,
)

if TYPE_CHECKING:
    from subgraft.training.understanding.input_forms import InputForm

# The formats of labelled files whose columns `predict` reads, by the file's ending.
_FORMATS: Mapping[str, LabelledFormat] = {
    "jsonl": "jsonl",
    "parquet": "parquet",
    "csv": "csv",
    "tsv": "tsv",
    "conll": "conll",
    "json": "squad",
}
PREDICT = (
    "Reads one input per line and prints one prediction per line. A line is a text; tabs separate two texts, a "
    "question and its passage, or a text or query and its choices or candidates. A file that ends in .csv, .tsv, "
    ".jsonl, .parquet, .conll or .json, and a data set, is read as `evaluate --labels` reads it; labels are ignored. "
    "Entities need columns."
)


def add_to(commands: Commands) -> None:
    predict = commands.add_parser(
        "predict", help="predict labels, tags, answers or ranks with a finetuned model", description=PREDICT
    )
    predict.add_argument("model", type=ModelName, metavar="MODEL", help=MODEL_HELP)
    predict.add_argument("--input", type=input_file, metavar="FILE", help="default, and for -: standard input")
    form = "lines of text, or a file with the columns of labelled files (default: by its ending; of others, lines)"
    predict.add_argument("--format", choices=("lines", *_FORMATS.values()), help=form)
    add_field(predict, "a column of such a file that has another name, as in text=review, repeatable")
    predict.add_argument("--json", action="store_true", help="print a JSON object a line, with probabilities or scores")
    add_languages(predict, "for models with language codes (default: those the model was made for)")
    predict.set_defaults(command=predict_lines)


def predict_lines(arguments: argparse.Namespace) -> None:
    from subgraft.data.text.dataset_files import is_dataset
    from subgraft.interfaces.api.predict import prediction_model  # takes seconds to load
    from subgraft.orchestration.execution.progress import counting

    model = prediction_model(arguments.model)
    path = arguments.input or Path("standard input")
    by_name = "parquet" if is_dataset(path) else _FORMATS.get(path.name.removesuffix(".gz").rpartition(".")[2], "lines")
    form: Any = arguments.format or by_name
    # A mistake in an input is reported before weights are read.
    if arguments.field and (form == "lines" or not arguments.input):
        raise UserError("lines have no columns", where="--field", hint="Leave it out, or give --input FILE.csv.")
    if form == "lines" or (form == "jsonl" and not arguments.input):
        lines = reading.lines(path) if arguments.input else standard_input()
        located = list(_inputs(lines, path, model.form, form))
    elif not arguments.input:
        raise UserError(f"{form} is read from a file", where="--format", hint="Give --input FILE.")
    else:
        located = list(_inputs_of_rows(_rows(path, form), model.form, form, dict(arguments.field)))
    inputs = [value for value, _ in located]
    with counting("predicting") as progress:
        predictor = model.predictor(arguments.languages)
        predictions = list(predictor.predict(inputs, progress=lambda done: progress(done, len(inputs), "inputs")))
    for prediction in predictions:
        write(json.dumps(prediction.facts, ensure_ascii=False) if arguments.json else prediction.text)
    truncated = [where for prediction, (_, where) in zip(predictions, located, strict=True) if prediction.truncated]
    if truncated:
        sys.stdout.flush()
        message = f"{len(truncated):,} of {len(inputs):,} inputs lost their end, too long for the model"
        say(f"{message}; the first is {truncated[0]}", to=sys.stderr)


# An input, and its location.
_Located: TypeAlias = tuple[Any, str]


def _inputs(lines: Iterable[str], path: Path, form: InputForm, written: str) -> Iterator[_Located]:
    if written == "jsonl":
        for number, record in enumerate(json_io.objects(lines, path), 1):
            yield form.of_value(record, f"{path}:{number}"), f"{path}:{number}"
        return
    for number, line in enumerate(lines, 1):
        yield form.of_line(line, f"{path}:{number}"), f"{path}:{number}"


def _rows(path: Path, written: LabelledFormat) -> Iterator[Row]:
    """The rows of a file, or of a data set of `datasets`."""
    from subgraft.data.sources.labelled_files import rows
    from subgraft.data.text.dataset_files import TEST, dataset_rows, is_dataset

    if is_dataset(path):
        return (Row(columns, where) for columns, where in dataset_rows(path, TEST))
    return rows(path, LabelledFiles(files={"test": str(path)}, format=written))


def _inputs_of_rows(
    rows: Iterable[Row], form: InputForm, written: LabelledFormat, named: Mapping[str, str]
) -> Iterator[_Located]:
    for number, row in enumerate(rows):
        columns = {"words": row["word"]} if written == "conll" else dict(row.columns)
        columns |= {"words" if role == "word" else role: row[name] for role, name in named.items()}
        try:
            yield form.of_value(columns, row.where), row.where
        except UserError as error:
            if number or written not in ("csv", "tsv"):
                raise
            hint = f"{error.hint} The first line names the columns: `--format lines` reads a file without them."
            raise UserError(error.what, where=row.where, hint=hint.strip()) from None
