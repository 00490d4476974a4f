"""Labelled examples of one file, split into training, dev and test."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from types import MappingProxyType
from typing import Any

from subgraft.base.errors import UserError
from subgraft.base.files import require_file
from subgraft.config.corpora import Languages
from subgraft.config.settings_base import Split
from subgraft.data.sources.labelled import resolve
from subgraft.data.sources.labelled_files import LabelledFiles, rows
from subgraft.data.tasks.classification import CLASSIFICATION, PAIR_CLASSIFICATION
from subgraft.data.tasks.labelled import LabelledTaskSpec
from subgraft.data.tasks.regression import REGRESSION
from subgraft.data.tasks.tagging import TAGGING
from subgraft.data.text.cleaning import dropped_in_words
from subgraft.data.text.fields import Sides
from subgraft.experiments.fit.split import FEWEST, FEWEST_HELD_OUT, FEWEST_TRAINING, held_out_size

# More examples than of translations, because predicting labels takes less time.
MAX_DEV, MAX_TEST = 500, 1000
# Tasks in order of precedence: a file's task is the first one whose columns it has. Columns are the fields of its
# JSON lines, in the order of an example's cells.
_PAIR = {"text": "text", "text_pair": "text_pair"}
_COLUMNS: Sequence[tuple[LabelledTaskSpec, Mapping[str, str]]] = (
    *((task, task.named()) for task in (TAGGING, PAIR_CLASSIFICATION, CLASSIFICATION)),
    *(
        (REGRESSION, {**texts, "value": value})
        for texts in (_PAIR, {"text": "text"})
        for value in REGRESSION.usual_names["value"]
    ),
)
# Half stars are classes; more different decimals are numbers.
MAX_DECIMALS = 20
_DECIMAL = re.compile(r"[+-]?\d*[.,]\d+")
_FORMATS = "csv, tsv, jsonl, parquet or conll"


@dataclass(frozen=True)
class LabelledSplit:
    """The examples of each split, as cells in the order of `columns`; and how many were left out, by reason.

    columns: of their JSON lines, by role.
    """

    task: str
    columns: Mapping[str, str]
    splits: Mapping[Split, tuple[Sides, ...]]
    left_out: Mapping[str, int]

    @property
    def train(self) -> tuple[Sides, ...]:
        return self.splits["train"]

    @property
    def lines(self) -> list[str]:
        """The training texts, one or two of an example."""
        texts = len(self.columns) - 1  # the last cell is the label
        return [text for cells in self.train for text in cells[:texts]]

    @property
    def summary(self) -> str:
        """The split in one sentence."""
        sizes = f"{len(self.train):,} to train on, {len(self.splits['dev']):,} dev, {len(self.splits['test']):,} test"
        dropped = ", ".join(f"{number:,} {reason}" for reason, number in dropped_in_words(self.left_out).items())
        return f"{self.task}: {sizes}, spread evenly over the file" + (f"; left out: {dropped}" if dropped else "")

    def records(self, split: Split) -> Iterator[str]:
        """The examples as JSON lines."""
        for cells in self.splits[split]:
            values: list[Any] = list(cells)
            if "word" in self.columns:
                values[0] = cells[0].split(" ")
            if self.columns.keys() & {"word", "value"}:  # JSON in a cell
                values[-1] = json.loads(cells[-1])
            yield json.dumps(dict(zip(self.columns.values(), values, strict=True)), ensure_ascii=False)


def split_labelled(path: Path, languages: Languages, named: Mapping[str, str] = MappingProxyType({})) -> LabelledSplit:
    """Read and split a file, always in the same way.

    named: its columns by role, where they have not their usual names. Raises UserError for a file of another form, or
    too small.
    """
    settings, columns = _settings(path, named)
    all_examples = resolve(settings, languages, Path(), {})
    count = all_examples.size("train")
    if count < FEWEST:
        hint = f"{FEWEST_HELD_OUT} are held out as dev and as test set each, {FEWEST_TRAINING} are trained on."
        raise UserError(f"{count:,} labelled examples: a fit needs {FEWEST:,} or more", where=str(path), hint=hint)
    held_out = {"dev": held_out_size(count, MAX_DEV), "test": held_out_size(count, MAX_TEST)}
    source = resolve(settings.model_copy(update={"held_out": held_out}), languages, Path(), {})
    splits = {split: tuple(source.read(split)) for split in source.splits}
    if classes := next((field for field in source.fields if field.has_classes), None):
        labels = Counter(label for cells in chain(*splits.values()) for label in classes.classes(cells[-1]))
        _require_learnable(labels, path)
    return LabelledSplit(settings.task, columns, splits, all_examples.remarks("train"))


def _require_learnable(labels: Counter[str], path: Path) -> None:
    """Raises UserError for labels that are numbers, and for those that mostly occur once."""
    hint = "Rename the column to `value`: a regression is fitted to numbers."
    decimals = [label for label in labels if _DECIMAL.fullmatch(label)]
    if len(decimals) > MAX_DECIMALS:
        what = f"{len(decimals):,} of {len(labels):,} labels are decimals, such as {decimals[0]}"
        raise UserError(what, where=str(path), hint=hint)
    single = sum(count == 1 for count in labels.values())
    if single > labels.total() / 2:
        hint = f"A classifier needs several examples of each label. {hint}"
        what = f"{single:,} of {labels.total():,} examples have a label that occurs once"
        raise UserError(what, where=str(path), hint=hint)


def _settings(path: Path, named: Mapping[str, str]) -> tuple[LabelledFiles, Mapping[str, str]]:
    """How a file is read, by its ending and the columns that it has, and the columns of an example by role."""
    files: dict[Split, str] = {"train": str(require_file(path).absolute())}
    ending = path.name.removesuffix(".gz").rpartition(".")[2]
    if ending == "conll":
        if named:
            raise UserError("the columns of conll have no names", where=str(path), hint="Leave out `field`.")
        return LabelledFiles(files=files, format="conll"), TAGGING.named()
    if ending not in ("csv", "tsv", "jsonl", "parquet"):
        raise UserError("the name does not show the format of the file", where=str(path), hint=f"Name it .{_FORMATS}.")
    first = next(rows(path, LabelledFiles(files=files)), None)
    if first is None:
        raise UserError("the file has no example", where=str(path))
    if missing := [column for column in named.values() if column not in first.columns]:
        hint = f"It has {', '.join(map(str, first.columns))}."
        raise UserError(f"the file has no column '{missing[0]}'", where=first.where, hint=hint)
    possible = [(task, {**columns, **named}) for task, columns in _COLUMNS if named.keys() <= columns.keys()]
    if not possible:
        roles = ", ".join(dict.fromkeys(role for _, columns in _COLUMNS for role in columns))
        raise UserError(f"no task has {' and '.join(named)}", where="field", hint=f"A column is one of {roles}.")
    matching = [(task, columns) for task, columns in possible if {*columns.values()} <= first.columns.keys()]
    targets = list(dict.fromkeys([*columns.values()][-1] for _, columns in matching))
    if len(targets) > 1:
        hint = "Remove or rename one: `label` makes a classifier, `value` or `score` a regression, `tags` a tagger."
        raise UserError(f"{' and '.join(targets)} are both there, and one can be learnt", where=first.where, hint=hint)
    for _, columns in matching:
        column_settings = {} if columns == CLASSIFICATION.named() else columns
        return LabelledFiles(files=files, **column_settings), columns  # type: ignore[arg-type]
    required = "text (and text_pair) and label or value; or, in JSON lines, the lists words and tags"
    present = ", ".join(map(str, first.columns))
    hint = f"Name them {required}; or say which they are: `--field label=NAME`."
    raise UserError(f"the columns are {present or 'none'}", where=first.where, hint=hint)
