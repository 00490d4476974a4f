"""Documents of a task's text in the forms that people have: lines, JSON lines, tables, and folders of these.

A plain or gzipped file has one segment a line, and blank lines end a document. A row of JSON lines, Parquet, or CSV and
tab-separated lines with a header is a document, whose lines are segments.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any, TypeAlias

from subgraft.base.errors import UserError
from subgraft.data.text import reading
from subgraft.data.text.delimited import Cells, csv_cells, tsv_cells, with_header

Document: TypeAlias = tuple[str, ...]  # its segments

_PLAIN = (".txt", ".md", ".text")
_JSON_LINES = (".jsonl", ".ndjson")
_PARQUET, _ARROW = ".parquet", ".arrow"
_CSV, _TSV = ".csv", ".tsv"
_ROWS = (*_JSON_LINES, _PARQUET, _ARROW, _CSV, _TSV)
# Longer lines, of texts without line ends, are split at a space: a model reads a limited number of tokens at once.
MAX_SEGMENT = 1000


@dataclass(frozen=True)
class TextFiles:
    """Files and folders of text.

    Attributes:
        paths: In the order in which they are read; of a folder, its files by name, also of folders in it.
        field: The column of JSON lines and tables that holds the text.
        split_long: Whether lines are split into segments of at most MAX_SEGMENT characters.
    """

    paths: tuple[Path, ...]
    field: str = "text"
    split_long: bool = True

    @property
    def files(self) -> tuple[Path, ...]:
        """The files. Raises UserError for a folder without text."""
        return tuple(file for path in self.paths for file in _files_of(path))

    def documents(self) -> Iterator[Document]:
        """The documents with text. Raises UserError for files that cannot be read."""
        for file in self.files:
            segments = (tuple(_segments(document, self.split_long)) for document in self._read(file))
            yield from filter(None, segments)

    def lines(self) -> Iterator[str]:
        """All lines as they are, also blank ones, of files and of texts in rows. Raises UserError as `documents`."""
        for file in self.files:
            yield from chain.from_iterable(self._rows(file)) if _suffix(file) in _ROWS else reading.lines(file)

    def _read(self, file: Path) -> Iterator[Iterable[str]]:
        return self._rows(file) if _suffix(file) in _ROWS else _plain(file)

    def _rows(self, file: Path) -> Iterator[Iterable[str]]:
        suffix = _suffix(file)
        if suffix in _JSON_LINES:
            return self._json_lines(file)
        if suffix in (_CSV, _TSV):
            return self._delimited(file, csv_cells(file) if suffix == _CSV else tsv_cells(file))
        return self._table(file, reading.parquet_rows if suffix == _PARQUET else reading.arrow_rows)

    def _json_lines(self, file: Path) -> Iterator[Iterable[str]]:
        for number, line in enumerate(reading.json_lines(file), 1):
            if line.strip():
                try:
                    row = json.loads(line)
                except (ValueError, RecursionError):
                    raise UserError("not JSON", where=f"{file}:{number}", hint="Give one object a line.") from None
                yield self._text_of(row, f"{file}:{number}").split("\n")

    def _delimited(self, file: Path, cells: Iterator[Cells]) -> Iterator[Iterable[str]]:
        for row, where in with_header(cells, file):
            yield self._text_of(row, where).split("\n")

    def _table(self, file: Path, rows: Callable[..., Iterator[dict[str, Any]]]) -> Iterator[Iterable[str]]:
        def columns(names: Sequence[str]) -> Sequence[str]:
            self._require_field(names, str(file))
            return [self.field]

        for number, row in enumerate(rows(file, columns), 1):
            yield self._text_of(row, f"{file}: row {number}").split("\n")

    def _text_of(self, row: Any, where: str) -> str:
        if not isinstance(row, dict):
            raise UserError("not a row with columns", where=where, hint=f'As in {{"{self.field}": "a text"}}.')
        self._require_field(list(row), where)
        text = row[self.field]
        if text is None:
            return ""
        if not isinstance(text, str):
            raise UserError(f"the column '{self.field}' contains no text", where=where, hint=_other_column(row))
        return text

    def _require_field(self, names: Sequence[str], where: str) -> None:
        if self.field not in names:
            known = ", ".join(map(str, names)) or "none"
            hint = f"Name the column of the text by `field`: {known}."
            raise UserError(f"there is no column '{self.field}'", where=where, hint=hint)


def _other_column(row: dict[Any, Any]) -> str:
    texts = ", ".join(str(name) for name, value in row.items() if isinstance(value, str))
    return f"Name the column of the text by `field`: {texts or 'none of this row is text'}."


def _suffix(file: Path) -> str:
    name = file.name.lower().removesuffix(".gz")
    return Path(name).suffix


def _files_of(path: Path) -> Sequence[Path]:
    if not path.is_dir():
        return (path,)
    known = (*_PLAIN, *_JSON_LINES, _PARQUET)
    files = sorted(file for file in path.rglob("*") if file.is_file() and _suffix(file) in known)
    if not files:
        hint = f"Text is read from {', '.join(known)}, also gzipped; name other files one by one."
        raise UserError("the folder has no file of text", where=str(path), hint=hint)
    return files


def _plain(file: Path) -> Iterator[Iterable[str]]:
    document: list[str] = []
    for line in reading.lines(file):
        if line.strip():
            document.append(line)
        elif document:
            yield document
            document = []
    yield document


def _segments(lines: Iterable[str], split_long: bool) -> Iterator[str]:
    """The lines that have text, without white space at their ends; long ones in parts if `split_long`."""
    for line in lines:
        rest = line.strip()
        while split_long and len(rest) > MAX_SEGMENT:
            end = rest.rfind(" ", 1, MAX_SEGMENT + 1)
            end = MAX_SEGMENT if end < 0 else end
            yield rest[:end].rstrip()
            rest = rest[end:].lstrip()
        if rest:
            yield rest
