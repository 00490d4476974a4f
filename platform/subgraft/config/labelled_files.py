"""Settings of labelled examples in files: which columns they are in decides which task they are for."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Annotated, Literal, TypeAlias

from pydantic import Field, model_validator

from subgraft.base.errors import UserError
from subgraft.config.settings_base import Count, Seed, Settings, Split

Column: TypeAlias = Annotated[int, Field(ge=1)] | str
LabelledTask = Literal[
    "classification",
    "pair-classification",
    "regression",
    "multiple-choice",
    "span-extraction",
    "tagging",
    "ranking",
    "relation-classification",
    "entity-typing",
]
LabelledFormat = Literal["csv", "tsv", "jsonl", "conll", "squad", "folders"]
# The required and the optional columns of each task.
_COLUMNS: Mapping[LabelledTask, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "classification": (("text", "label"), ()),
    "pair-classification": (("text", "text_pair", "label"), ()),
    "regression": (("text", "value"), ("text_pair",)),
    "multiple-choice": (("text", "choices", "answer"), ()),
    "span-extraction": (("question", "passage", "answers"), ()),
    "tagging": (("word", "tag"), ()),
    "ranking": (("query", "candidate", "relevance"), ("query_id",)),
    "relation-classification": (("text", "head", "tail", "label"), ()),
    "entity-typing": (("text", "entity", "labels"), ()),
}
# The columns that occur in one task only, by which the task is recognised.
_TASK_OF_COLUMN = {
    column: task
    for task, (needed, optional) in _COLUMNS.items()
    for column in (*needed, *optional)
    if column not in ("text", "text_pair", "label")
}
# The names of a column of numbers in files without settings.
NUMBERS = ("value", "score")
# The names of all settings that are columns.
ROLES = ("text", "text_pair", "label", *_TASK_OF_COLUMN)
# The file endings of each format, and the format of each ending, for tagging and for all other tasks.
_ENDINGS: Mapping[LabelledFormat, tuple[str, ...]] = {
    "csv": ("csv",),
    "tsv": ("tsv", "txt"),
    "jsonl": ("jsonl",),
    "conll": ("conll", "txt", "tsv"),
    "squad": ("json",),
    "folders": (),
}
_FORMATS: Mapping[str, LabelledFormat] = {"csv": "csv", "tsv": "tsv", "jsonl": "jsonl"}
_TAGGING_FORMATS: Mapping[str, LabelledFormat] = {"conll": "conll", "txt": "conll", "tsv": "conll", "jsonl": "jsonl"}


def columns_by_name(task: LabelledTask) -> dict[str, str]:
    """The settings of files of a task whose columns are called as the settings are."""
    return {"word": "words", "tag": "tags"} if task == "tagging" else {role: role for role in _COLUMNS[task][0]}


def number_column(columns: Collection[object], where: str) -> str | None:
    """The column of numbers of a file without settings. Raises UserError if there are two."""
    present = [name for name in NUMBERS if name in columns]
    if len(present) > 1:
        both = " and ".join(present)
        raise UserError(f"{both} are both there, and one can be learnt", where=where, hint="Remove or rename one.")
    return present[0] if present else None


class LabelledFiles(Settings):
    """Labelled examples in files. The columns that are named decide the task; by default texts with a `label`.

    A column is a field of JSON lines or of the header by name, or a column from 1 of a file without a header.

    folder: a folder with {train,dev,test}.{csv,tsv,jsonl,conll,txt,json}[.gz], or of format `folders`.
    files: a path per split, in place of folder.
    format: csv (with quoting), tsv (without), jsonl, conll (a word per line, an empty line after a sentence),
    squad (SQuAD's JSON), or folders ({split}/{class}/*.txt of one text each, or {split}/{class}.txt of a text per line;
    without folders of splits all is for training). By default the file's ending decides.
    delimiter: the character between columns of csv.
    text: the column of the text.
    text_pair: the column of a second text, for pairs.
    label: the column of the class.
    value: regression: the column of a number.
    choices: multiple choice: the columns of the choices, or one column of JSON lines with a list of them.
    answer: the column of the right choice: its index, its letter from A, or its text.
    first_choice: the index of the first choice.
    question, passage: span extraction: the columns of the question and of the passage.
    answers: the column of its answers: a list of [start, end] in characters of the passage, or `text` and
    `answer_start` as in SQuAD; an empty list means that the passage has no answer.
    word, tag: tagging: columns of conll (by default the first and the last one), or of lists in JSON lines.
    comments: the first characters of lines that conll skips, such as `#`.
    query, candidate: ranking: the columns of both texts; the records of a query follow each other.
    relevance: the column of a whole number, 0 for a candidate that is not relevant.
    query_id: the column of the query's name; by default equal queries that follow each other are one.
    ranking: whether squad is read as ranking: the sentences of a passage are the candidates of its question.
    head, tail, entity: relations and entity typing: the column of a span of the text, `start:end` or [start, end] in
    characters, or two columns.
    labels: entity typing: the column of all types: a list, or text with a `separator` between them.
    separator: the text between labels.
    held_out: the number of training examples moved to the split, or a few more, because queries and SQuAD's articles
    stay whole.
    seed: draws the held-out examples; without it, they are evenly spaced.
    """

    folder: str | None = None
    files: Annotated[dict[Split, str], Field(min_length=1)] | None = None
    format: LabelledFormat | None = None
    delimiter: Annotated[str, Field(pattern=r"^[^\n\r\"]$")] = ","
    text: Column | None = None
    text_pair: Column | None = None
    label: Column | None = None
    value: Column | None = None
    choices: Column | tuple[Column, ...] | None = None
    answer: Column | None = None
    first_choice: Literal[0, 1] = 0
    question: Column | None = None
    passage: Column | None = None
    answers: Column | None = None
    word: Column | None = None
    tag: Column | None = None
    comments: Annotated[str, Field(min_length=1)] | None = None
    query: Column | None = None
    candidate: Column | None = None
    relevance: Column | None = None
    query_id: Column | None = None
    ranking: bool = False
    head: Column | tuple[Column, Column] | None = None
    tail: Column | tuple[Column, Column] | None = None
    entity: Column | tuple[Column, Column] | None = None
    labels: Column | None = None
    separator: Annotated[str, Field(min_length=1)] = ","
    held_out: dict[Literal["dev", "test"], Count] = Field(default_factory=dict)
    seed: Seed | None = None

    @property
    def task(self) -> LabelledTask:
        """The task that the examples are for."""
        if self.format == "squad":
            return "ranking" if self.ranking else "span-extraction"
        if self.format == "conll":
            return "tagging"
        by_column = next((_TASK_OF_COLUMN[role] for role in self._named_roles if role in _TASK_OF_COLUMN), None)
        return by_column or ("pair-classification" if self.text_pair is not None else "classification")

    def columns(self, role: str) -> tuple[int | str, ...]:
        """The columns of a role, such as "text"; none if it is optional and not named."""
        column = getattr(self, role)
        if column is None:
            task: LabelledTask = "span-extraction" if self.format == "squad" else self.task
            return (role,) if role in _COLUMNS[task][0] else ()
        return column if isinstance(column, tuple) else (column,)

    @property
    def numbered(self) -> bool:
        """Whether columns are numbers, and files have no header."""
        return any(isinstance(column, int) for role in self._named_roles for column in self.columns(role))

    def format_of(self, name: str) -> LabelledFormat | None:
        """The format of a file; None if neither the settings nor the ending decide it."""
        return self.format or self._by_ending.get(name.removesuffix(".gz").rpartition(".")[2])

    @property
    def endings(self) -> tuple[str, ...]:
        """The endings of the files of a folder."""
        return tuple(self._by_ending) if self.format is None else _ENDINGS[self.format]

    @property
    def _by_ending(self) -> Mapping[str, LabelledFormat]:
        return _TAGGING_FORMATS if self.columns("word") else _FORMATS

    @property
    def _named_roles(self) -> list[str]:
        return [role for role in ROLES if getattr(self, role) is not None]

    @model_validator(mode="after")
    def _consistent(self) -> LabelledFiles:
        if (self.folder is None) == (self.files is None):
            raise ValueError("give exactly one of folder, files")
        self._require_columns()
        if self.format == "folders" and self.folder is None:
            raise ValueError("format folders needs `folder`")
        if self.ranking and self.format != "squad":
            raise ValueError(
                "ranking applies to format squad only: for other files name query, candidate and relevance"
            )
        if self.files is not None:
            if overlap := sorted(self.files.keys() & self.held_out.keys()):
                raise ValueError(f"{overlap[0]} has a file, so it cannot be held out of train")
            if "train" not in self.files and self.held_out:
                raise ValueError("held_out needs a training file, which is missing")
        return self

    def _require_columns(self) -> None:
        if self.format in ("squad", "folders") and self._named_roles:
            raise ValueError(f"format {self.format} has no columns: leave out {', '.join(self._named_roles)}")
        required, optional = _COLUMNS[self.task]
        if foreign := [role for role in self._named_roles if role not in required + optional]:
            raise ValueError(
                f"the columns belong to two tasks: {foreign[0]} does not belong to {self.task} ({', '.join(required)})"
            )
        if self.format == "conll":
            if not all(isinstance(column, int) for role in self._named_roles for column in self.columns(role)):
                raise ValueError("the columns of conll are numbers")
            return
        roles = self._named_roles if self.columns("word") else required
        kinds = {isinstance(column, str) for role in roles for column in self.columns(role)}
        if len(kinds) > 1:
            raise ValueError(f"columns are all names or all numbers; {self.task} needs {', '.join(required)}")
        if isinstance(self.choices, tuple) and len({*self.choices}) < max(len(self.choices), 2):
            raise ValueError("choices needs at least two different columns, or one that is a list")
