"""Records of named fields: JSON lines, or tab-separated files."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import Annotated, Any, NamedTuple

from pydantic import Field as SettingsField
from pydantic import model_validator

from subgraft.base import json_io
from subgraft.base.errors import UserError
from subgraft.config.settings_base import Settings, Split
from subgraft.data.sources.kind import Request, SourceKind
from subgraft.data.sources.paths import one_file_per_split
from subgraft.data.sources.resolved_corpus import ResolvedSource, SplitFilesSource
from subgraft.data.text import reading
from subgraft.data.text.fields import (
    Field,
    FieldKind,
    FieldName,
    Place,
    Sides,
    cell_of,
    json_cell,
    label_of,
    select_fields,
    span_bounds,
    text_of,
)


class RecordField(Settings):
    """A named field of records.

    kind: the type of its values: a text, a label, a span of a text, named spans of it, triples that it
    states, or a row of a tensor.
    column: the column that it is read from; the field's name by default.
    language: the language of a text; the field's name by default.
    of: the text that contains a span, [start, end] in characters; or spans, a list of [start, end, name], such as its
    entities; or the text that states triples, a list of [head, relation, tail]. Lists are JSON in a tab-separated file.

    A tensor has no column: its rows are in {train,dev,test}.{name}.safetensors next to the records.
    """

    kind: FieldKind = "text"
    column: int | str | None = None
    language: str | None = None
    of: str | None = None

    @model_validator(mode="after")
    def _of_its_kind(self) -> RecordField:
        if self.language is not None and self.kind != "text":
            raise ValueError("only a text has a language")
        if (self.of is not None) != (self.kind in ("span", "spans", "triples")):
            raise ValueError("spans and triples need `of`, the text that contains them, and other kinds cannot have it")
        if self.kind == "tensor" and self.column is not None:
            raise ValueError("a tensor has no column: its rows are in a safetensors file")
        return self


class RecordFiles(Settings):
    """Records of named fields: JSON lines, or tab-separated if columns are numbers, from 1.

    folder: a folder with {train,dev,test}.jsonl[.gz] or .tsv[.gz].
    files: a path per split, in place of folder.
    fields: the fields of a record, by name; at least one must be a text.
    document: the column with the name of a record's document; texts are then segments or lists of segments, and
    adjacent records with one name form the document.
    """

    folder: str | None = None
    files: dict[Split, str] | None = None
    fields: Annotated[dict[FieldName, RecordField], SettingsField(min_length=1)]
    document: int | str | None = None

    def column(self, name: str) -> int | str:
        """The column of a field."""
        column = self.fields[name].column
        return name if column is None else column

    @property
    def numbered(self) -> bool:
        """Whether columns are those of tab-separated files."""
        return any(isinstance(column, int) for column in self._columns)

    @property
    def _columns(self) -> list[int | str]:
        columns = [self.column(name) for name, field in self.fields.items() if field.kind != "tensor"]
        return columns if self.document is None else [*columns, self.document]

    @model_validator(mode="after")
    def _consistent(self) -> RecordFiles:
        require_files(self, self._columns)
        if "documents" in self.fields:
            raise ValueError("no field can be called documents: a corpus uses that name for the documents of segments")
        texts = {name for name, field in self.fields.items() if field.kind == "text"}
        if not texts:
            raise ValueError("at least one field must be a text")
        for name, field in self.fields.items():
            if field.of is not None and field.of not in texts:
                raise ValueError(f"the {field.kind} {name} is of '{field.of}', which is not a text field")
        if self.folder is None and any(field.kind == "tensor" for field in self.fields.values()):
            raise ValueError("tensors are in the folder of their records: give folder, not files")
        return self


class Records(Settings):
    """records: named fields (texts, labels, spans, tensors) in files, which may form documents."""

    records: RecordFiles | None = None


def require_files(files: RecordFiles | Any, columns: Sequence[int | str]) -> None:
    """Raise ValueError unless one of folder and files is set, and columns are all numbers from 1 or all names."""
    if (files.folder is None) == (files.files is None):
        raise ValueError("give exactly one of folder, files")
    if len({isinstance(column, str) for column in columns}) > 1:
        raise ValueError("columns are numbers (tab-separated) or names (JSON lines), not both")
    if any(isinstance(column, int) and column < 1 for column in columns):
        raise ValueError("columns are counted from 1")


# By name in JSON, by number in tab-separated lines.
Columns = Mapping[Any, Any]


def rows(path: Path, *, named: bool) -> Iterator[tuple[Columns, str]]:
    """The fields of every line and its location: fields of a JSON object by name, or tab-separated columns from 1."""
    lines = reading.json_lines(path) if named else reading.lines(path)
    rows: Iterable[Columns] = (
        json_io.objects(lines, path) if named else (dict(enumerate(line.split("\t"), 1)) for line in lines)
    )
    return ((row, f"{path}:{number}") for number, row in enumerate(rows, 1))


class _Record(NamedTuple):
    """The segments of a record, each with its cells by field."""

    document: str | None
    segments: list[dict[str, str]]
    where: str


@dataclass(frozen=True)
class RecordsSource(SplitFilesSource):
    """Records in one file per split; `declared` has each field's name in the settings."""

    files: Mapping[Split, Path]
    settings: RecordFiles
    declared: tuple[str, ...]

    @property
    def documented(self) -> bool:  # type: ignore[override]
        return self.settings.document is not None

    def paths(self, split: Split) -> tuple[Path, ...]:
        return (self.files[split], *(self.tensor(split, field.name) for field in self._of_kind("tensor")))

    def tensor(self, split: Split, name: str) -> Path:
        return self.files[split].parent / f"{split}.{name}.safetensors"

    def _origin(self) -> dict[str, object]:
        form = self.settings.model_dump(mode="json", exclude={"folder", "files"})
        return {"records": form, "files": self._digests}

    def _count_split(self, split: Split) -> int:
        from subgraft.data.text.tensors import row_count

        count = self._count_segments(split)
        for field in self._of_kind("tensor"):
            path = self.tensor(split, field.name)
            if (rows := row_count(path, field.name)) != count:
                hint = f"{self.files[split]} has {count:,} segments; a row for each is expected."
                raise UserError(f"the tensor '{field.name}' has {rows:,} rows", where=str(path), hint=hint)
        return count

    def _segments(self, split: Split) -> Iterator[Sides]:
        row_number, seen = 0, set[str]()
        read = (self._record(*row) for row in rows(self.files[split], named=not self.settings.numbered))
        for document, records in groupby(read, lambda record: record.document):
            position = 0
            for where, cells in ((record.where, cells) for record in records for cells in record.segments):
                if document is not None and position == 0:
                    if document in seen:
                        hint = "The records of a document must be adjacent."
                        raise UserError(f"the document '{document}' comes again", where=where, hint=hint)
                    seen.add(document)
                values = [str(row_number) if field.kind == "tensor" else cells[field.name] for field in self.fields]
                yield (*values, str(Place(document, position))) if document is not None else tuple(values)
                row_number, position = row_number + 1, position + 1

    def _record(self, columns: Columns, where: str) -> _Record:
        document = None
        if self.settings.document is not None:
            document = label_of(cell_of(columns, self.settings.document, where), "a document's name", where)
        values = {
            field.name: cell_of(columns, self.settings.column(name), where)
            for field, name in zip(self.fields, self.declared, strict=True)
            if field.kind != "tensor"
        }
        return _Record(document, [self._segment(one, where) for one in self._split_document(values, where)], where)

    def _text(self, value: Any, column: int | str, where: str) -> str:
        if isinstance(value, list) and value and all(isinstance(segment, str) for segment in value):
            hint = "Write `document:`, with the field that names a document, or give a text in place of the list."
            raise UserError(f"the field '{column}' lists the segments of a document", where=where, hint=hint)
        return text_of(value, column, where)

    def _split_document(self, values: dict[str, Any], where: str) -> list[dict[str, Any]]:
        """The values of each segment; a document whose texts are lists has several."""
        lists = [field.name for field in self._of_kind("text") if isinstance(values[field.name], list)]
        if self.settings.document is None or not lists:
            return [values]
        if len(lists) < len(self._of_kind("text")) or any(field.of for field in self.fields):
            raise UserError("in a document all texts must be lists of segments, or none; with spans, none", where=where)
        sizes = {name: len(values[name]) for name in lists}
        if len(set(sizes.values())) > 1:
            counted = ", ".join(f"{name}: {size:,}" for name, size in sizes.items())
            raise UserError(f"unequal numbers of segments ({counted})", where=where, hint="They must agree one by one.")
        count = next(iter(sizes.values()))
        return [
            {name: value[index] if name in lists else value for name, value in values.items()} for index in range(count)
        ]

    def _segment(self, values: dict[str, Any], where: str) -> dict[str, str]:
        cells: dict[str, str] = {}
        for field, declared in zip(self.fields, self.declared, strict=True):
            if field.kind == "text":
                cells[field.name] = self._text(values[field.name], self.settings.column(declared), where)
            elif field.kind == "label":
                cells[field.name] = label_of(values[field.name], f"the label '{field.name}'", where)
        for field in self._of_kind("span"):
            assert field.of is not None
            cells[field.name] = _span_cell(values[field.name], cells[field.of], field.name, where)
        for field in self._of_kind("spans"):
            assert field.of is not None
            cells[field.name] = _spans_cell(values[field.name], cells[field.of], field.name, where)
        for field in self._of_kind("triples"):
            cells[field.name] = json_cell(_triples(values[field.name], field.name, where))
        return cells

    def _of_kind(self, kind: str) -> list[Field]:
        return [field for field in self.fields if field.kind == kind]


def _span_cell(value: object, text: str, name: str, where: str) -> str:
    """The bounds of a span in the stored text, which has no outer white space."""
    start, end = span_bounds(value, name, where)
    offset = len(text) - len(text.lstrip())
    if not offset <= start < end <= offset + len(text.strip()):
        raise UserError(f"the span '{name}' ({start} to {end}) is not within its text", where=where)
    return f"{start - offset}\t{end - offset}"


def _spans_cell(value: object, text: str, name: str, where: str) -> str:
    """Named spans of a text as JSON, in the order of their positions."""
    spans = _lists_of_three(value, f"'{name}' is not a list of [start, end, name]", '[[0, 6, "London"]]', where)
    cells = list[list[int | str]]()
    for start, end, name_of_span in spans:
        bounds = _span_cell([start, end], text, name, where).split("\t")
        cells.append([*map(int, bounds), label_of(name_of_span, f"the name of a span of '{name}'", where)])
    return json_cell(sorted(cells, key=lambda cell: cell[:2]))


def _triples(value: object, name: str, where: str) -> list[list[str]]:
    example = '[["London", "capital of", "England"]]'
    triples = _lists_of_three(value, f"'{name}' is not a list of [head, relation, tail]", example, where)
    return [[label_of(part, f"a part of a triple of '{name}'", where) for part in triple] for triple in triples]


def _lists_of_three(value: object, what: str, example: str, where: str) -> list[list[Any]]:
    listed: Any = value
    if isinstance(value, str):
        try:
            listed = json.loads(value)
        except ValueError:
            listed = None
    if not isinstance(listed, list) or not all(isinstance(each, list) and len(each) == 3 for each in listed):
        raise UserError(what, where=where, hint=f"For example {example}.")
    return listed


def _resolve(request: Request) -> ResolvedSource:
    settings = request.settings
    declared = [
        Field(name, field.kind, (field.language or name) if field.kind == "text" else None, field.of)
        for name, field in settings.fields.items()
    ]
    fields = select_fields(request.languages, declared, "records.fields")
    ending = "tsv" if settings.numbered else "jsonl"
    files = one_file_per_split(settings.folder or settings.files, ending, request.base)
    return RecordsSource(tuple(fields.values()), request.limit, files, settings, tuple(fields))


RECORDS = SourceKind(name="records", fields=Records, resolve=_resolve, names_languages=True)
