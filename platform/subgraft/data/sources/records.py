"""Records of named fields, and pairs in columns: JSON lines and tab-separated files."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import Any, NamedTuple

from subgraft.base import json_io
from subgraft.base.errors import UserError
from subgraft.config.settings_base import Split
from subgraft.config.source_files import ColumnFiles, RecordFiles
from subgraft.data.sources.resolved_corpus import PairFilesSource, SplitFilesSource
from subgraft.data.text import reading
from subgraft.data.text.fields import Field, Place, Sides, cell_of, json_cell, label_of, span_bounds, text_of
from subgraft.data.text.tensors import row_count

# By name in JSON, by number in tab-separated lines.
Columns = Mapping[Any, Any]


def _rows(path: Path, *, named: bool) -> Iterator[tuple[Columns, str]]:
    """The fields of every line and its location: fields of a JSON object by name, or tab-separated columns from 1."""
    lines = reading.lines(path)
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
        count = self._count_segments(split)
        for field in self._of_kind("tensor"):
            path = self.tensor(split, field.name)
            if (rows := row_count(path, field.name)) != count:
                hint = f"{self.files[split]} has {count:,} segments; a row for each is expected."
                raise UserError(f"the tensor '{field.name}' has {rows:,} rows", where=str(path), hint=hint)
        return count

    def _segments(self, split: Split) -> Iterator[Sides]:
        row_number, seen = 0, set[str]()
        for document, records in groupby(self._records(split), lambda record: record.document):
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

    def _records(self, split: Split) -> Iterator[_Record]:
        return (self._record(*row) for row in _rows(self.files[split], named=not self.settings.numbered))

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


# Pairs of texts in columns: tab-separated files, and JSON lines with named fields.


def pairs(path: Path, columns: ColumnFiles) -> Iterator[Sides]:
    """The (source, target) of every line, plain or gzipped. Quotes have no special meaning in tab-separated files.

    If a field contains a list, its first item is used. Raises UserError with file and line for a line that lacks a
    column, or is not a JSON object of texts.
    """
    for cells, where in _rows(path, named=columns.named):
        yield tuple(
            columns.separator.join(_text_cell(cells, column, where) for column in side) for side in columns.sides
        )


def _text_cell(cells: Columns, column: int | str, where: str) -> str:
    value = cell_of(cells, column, where)
    return text_of(value[0] if isinstance(value, list) and value else value, column, where)


@dataclass(frozen=True)
class ColumnsSource(PairFilesSource):
    """Pairs in the columns of one file per split."""

    columns: ColumnFiles

    def _origin(self) -> dict[str, object]:
        form = self.columns.model_dump(mode="json", exclude={"folder", "files"})
        return {"columns": form, "files": self._file_digests}

    def _segments(self, split: Split) -> Iterator[Sides]:
        return pairs(self.files[split], self.columns)

    def _count_split(self, split: Split) -> int:
        count = sum(1 for _ in self._segments(split))
        if count == 0:
            raise UserError("an empty corpus", where=str(self.files[split]))
        return count
