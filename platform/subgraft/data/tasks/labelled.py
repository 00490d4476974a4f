"""What a task with labels declares: the columns of its files, the fields of its examples, how a row becomes examples.

A malformed row (a missing column, a number in place of a text) is an error, because the whole file may have another
layout. A well-formed row that can be neither learnt nor scored (without a label, or with an answer that its passage
does not contain) is left out and counted, by the reasons in `cleaning.RULES`.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Annotated, Any, Literal, NamedTuple, TypeAlias

from pydantic import Field as SettingsField

from subgraft.base.errors import UserError
from subgraft.base.limits import MAX_VALUE
from subgraft.config.corpora import Languages
from subgraft.config.settings_base import Settings, Split
from subgraft.data.tasks.task import ANY_LENGTH, TaskSpec
from subgraft.data.text.fields import Field, Sides, cell_of, label_of, pair_fields, span_bounds, text_of

Column: TypeAlias = Annotated[int, SettingsField(ge=1)] | str
LabelledFormat = Literal["csv", "tsv", "jsonl", "parquet", "conll", "squad", "folders"]
# Python also reads 1_000 and digits of other scripts.
_NUMBER = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?")


class SharedColumns(Settings):
    """Where labelled files are, and the columns of several tasks.

    folder: a folder with {train,dev,test}.{csv,tsv,jsonl,parquet,conll,txt,json}[.gz], or of format `folders`.
    files: a path per split, in place of folder.
    format: csv (with quoting), tsv (without), jsonl, parquet, conll (a word per line, an empty line after a sentence),
    squad (SQuAD's JSON), or folders ({split}/{class}/*.txt of one text each, or {split}/{class}.txt of a text per line;
    without folders of splits all is for training). By default the file's ending decides.
    delimiter: the character between columns of csv.
    text: the column of the text.
    text_pair: the column of a second text, for pairs.
    label: the column of the class.
    """

    folder: str | None = None
    files: Annotated[dict[Split, str], SettingsField(min_length=1)] | None = None
    format: LabelledFormat | None = None
    delimiter: Annotated[str, SettingsField(pattern=r"^[^\n\r\"]$")] = ","
    text: Column | None = None
    text_pair: Column | None = None
    label: Column | None = None


@dataclass(frozen=True)
class Row:
    """A row of a labelled file.

    Attributes:
        columns: Its columns, by name or by number from 1.
        where: Its location, for messages.
        group: The group that must stay within one split, if any.
    """

    columns: Mapping[Any, Any]
    where: str
    group: str | None = None

    def __getitem__(self, column: int | str) -> Any:
        return cell_of(self.columns, column, self.where)


class UnlearnableError(Exception):
    """A row that cannot be learnt; its argument is a key of `cleaning.RULES`."""


class LabelledRow(NamedTuple):
    """A row with the settings that name its columns.

    Attributes:
        row: The row.
        settings: Those of the files, with the columns of all tasks.
        columns: The columns of each role, such as "text".
        counts: Receives noteworthy events, by the names in `cleaning.RULES`.
    """

    row: Row
    settings: Any
    columns: Mapping[str, tuple[int | str, ...]]
    counts: Counter[str]

    @property
    def where(self) -> str:
        return self.row.where

    def values(self, role: str) -> list[Any]:
        """The values of the columns of a role."""
        return [self.row[column] for column in self.columns[role]]

    def value(self, role: str) -> Any:
        """The value of the only, or the first, column of a role."""
        return self.row[self.columns[role][0]]

    def text(self, role: str) -> str:
        return stripped(self.value(role), role, self.where)

    def label(self) -> str:
        return class_of(self.value("label"), "the label", self.where)

    def number(self, role: str) -> float:
        return _number(self.value(role), role, self.where)

    def text_with_spans(self, *roles: str) -> tuple[str, list[str]]:
        """The text, and the cells of spans of it, which do not overlap."""
        text = text_of(self.value("text"), "text", self.where)
        offset = len(text) - len(text.lstrip())
        without_space, spans = stripped(text, "text", self.where), list[tuple[int, int]]()
        for role in roles:
            values = self.values(role)
            start, end = span_bounds(values if len(values) == 2 else values[0], role, self.where)
            if not 0 <= start - offset < end - offset <= len(without_space):
                raise UnlearnableError("span_outside")
            spans.append((start - offset, end - offset))
        if any(end > start for (_, end), (start, _) in pairwise(sorted(spans))):
            raise UnlearnableError("spans_overlap")
        return without_space, [f"{start}\t{end}" for start, end in spans]


def stripped(value: Any, role: str, where: str) -> str:
    """A text without outer white space. Raises UnlearnableError if nothing is left."""
    text = "" if value is None else text_of(value, role, where).strip()
    if not text:
        raise UnlearnableError("no_text")
    return text


def class_of(value: Any, what: str, where: str) -> str:
    """The name of a class. Raises UnlearnableError if there is none, and UserError for other values."""
    if isinstance(value, bool):
        value = str(value).lower()
    elif isinstance(value, str):
        value = value.strip()
    elif isinstance(value, float):
        hint = "A column of decimals is a `value`, which a regression predicts; a class is a text or a whole number."
        raise UserError(f"{what} is the decimal {value}", where=where, hint=hint)
    if value is None or value == "":
        raise UnlearnableError("no_label")
    return label_of(value, what, where)


def _number(value: Any, role: str, where: str) -> float:
    if value is None or (isinstance(value, str) and not value.strip()):
        raise UnlearnableError("no_label")
    try:
        plain = not isinstance(value, bool | str) or (isinstance(value, str) and _NUMBER.fullmatch(value.strip()))
        number = float(value) if plain else math.nan
    except (TypeError, ValueError, OverflowError):
        number = math.nan
    if not math.isfinite(number):
        raise UserError(f"the {role} {value!r:.40} is not a finite number", where=where, hint="Write it as in 3.5.")
    if abs(number) > MAX_VALUE:
        hint = f"Numbers are at most {MAX_VALUE:g}, whose squares a training can add up: write them in a larger unit."
        raise UserError(f"the {role} {value!r:.40} is too large", where=where, hint=hint)
    return int(number) if isinstance(value, int) else number


_SCORED_BY_LABELS: Mapping[str, Mapping[str, Any]] = {
    "finetune": {"select": "score", "label_smoothing": 0.0},
    "multitask_training": {"select": "score", "label_smoothing": 0.0},
    "evaluation": {"calibration": False, "by_token_count": False},
    "cleaning": ANY_LENGTH,
}
# Of files without an ending for one task alone.
_ENDINGS: Mapping[str, LabelledFormat] = {"csv": "csv", "tsv": "tsv", "jsonl": "jsonl", "parquet": "parquet"}
# Completes the cells of an example of a group, and names the group. The second argument is the row's location.
Grouping = Callable[[Sides, str], tuple[Sides, str]]


@dataclass(frozen=True, kw_only=True)
class LabelledTaskSpec(TaskSpec):
    """A task whose models get a head that predicts labels.

    Attributes:
        task: Its class, as MODULE:CLASS of `training.understanding`; plans do not import it.
        pairs: Whether it reads two texts; with an optional `text_pair` a corpus decides that.
        settings: The settings of its files that other tasks do not have.
        columns, optional_columns: The settings that name the columns of its files. A corpus that names one which no
            other task has is for this task.
        usual_names: Names of columns in files without settings that differ from the settings' own, the usual one first.
        fields: The fields of an example after its texts.
        texts: The texts of an example, if other than one or a pair; the rows are those of the first file.
        examples: The cells of a row's examples.
        formats: The formats whose files are for this task.
        chosen_by: The setting that chooses it among tasks of one format; the other one has none.
        endings: The format of each ending of its files.
        grouping: Makes the function that groups examples which must stay within one split.
        classes: Whether labels are classes, so that they can be smoothed.
        zero_shot: Whether a language model can predict the label without finetuning.
        heads: The heads of its own that it can have, by kind (`config.heads`).
        marks: The tokens by which it marks entities.
        route: Of predictions, in `subgraft serve`.
        line: A line of input, in docs/guide-models.md.
        answer: A prediction, in docs/guide-models.md.
    """

    task: str
    columns: tuple[str, ...]
    examples: Callable[[LabelledRow], Iterable[Sides]]
    fields: tuple[Field, ...]
    answer: str
    line: str = ""
    settings: type[Settings] | None = None
    pairs: bool = False
    optional_columns: tuple[str, ...] = ()
    usual_names: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    texts: Callable[[Any, Languages, Iterator[Row]], tuple[Field, ...]] | None = None
    formats: tuple[LabelledFormat, ...] = ()
    chosen_by: str = ""
    endings: Mapping[str, LabelledFormat] = field(default_factory=lambda: _ENDINGS)
    grouping: Callable[[], Grouping] | None = None
    classes: bool = True
    zero_shot: bool = False
    heads: tuple[str, ...] = ()
    marks: tuple[str, ...] = ()
    route: str = "/classify"
    finetuned_on: Mapping[str, Any] = field(init=False)
    defaults: Mapping[str, Mapping[str, Any]] = field(default_factory=lambda: _SCORED_BY_LABELS)

    def __post_init__(self) -> None:
        kind = "labelled-pairs" if self.pairs else "labelled"
        object.__setattr__(self, "finetuned_on", {"kind": kind, "task": self.name})

    def has_pairs(self, files: SharedColumns) -> bool:
        """Whether the examples of files have two texts."""
        return self.pairs and ("text_pair" not in self.optional_columns or files.text_pair is not None)

    def all_fields(self, files: SharedColumns, languages: Languages, rows: Iterator[Row]) -> tuple[Field, ...]:
        """All fields of the examples of files; rows: those of the first file."""
        if self.texts is not None:
            return (*self.texts(files, languages, rows), *self.fields)
        return (*pair_fields(languages, two=self.has_pairs(files)), *self.fields)

    def named(self, present: Collection[object] = (), where: str = "") -> dict[str, str]:
        """The settings of files whose columns have their usual names.

        Args:
            present: the columns of a file, if known; one of several usual names must be among them.
            where: the file.

        Raises:
            UserError: Two usual names of one column are present.
        """
        names = {role: self.usual_names.get(role, (role,)) for role in self.columns}
        return {role: _only(among, present, where) for role, among in names.items()}


def _only(names: tuple[str, ...], present: Collection[object], where: str) -> str:
    candidates = [name for name in names if name in present]
    if len(candidates) > 1:
        both = " and ".join(candidates)
        raise UserError(f"{both} are both there, and one can be learnt", where=where, hint="Remove or rename one.")
    return candidates[0] if candidates else names[0]
