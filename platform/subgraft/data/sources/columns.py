"""Pairs in columns of a file: tab-separated lines, or JSON lines with named fields."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from pydantic import model_validator

from subgraft.base.errors import UserError
from subgraft.config.settings_base import Settings, Split
from subgraft.data.sources.kind import Request, SourceKind
from subgraft.data.sources.paths import one_file_per_split
from subgraft.data.sources.records import Columns, require_files, rows
from subgraft.data.sources.resolved_corpus import PairFilesSource, ResolvedSource
from subgraft.data.text.fields import Sides, cell_of, pair_fields, text_of


class ColumnFiles(Settings):
    """Pairs in columns of a file: tab-separated columns by number, from 1, or fields of JSON lines by name.

    folder: a folder with {train,dev,test}.tsv[.gz], or .jsonl[.gz] if columns are named.
    files: a path per split, in place of folder.
    source, target: a column, or several, joined by `separator`; of a field that is a list, its first item.
    separator: the text between several columns.
    """

    folder: str | None = None
    files: dict[Split, str] | None = None
    source: int | str | tuple[int | str, ...] = 1
    target: int | str | tuple[int | str, ...] = 2
    separator: str = " "

    @property
    def sides(self) -> tuple[tuple[int | str, ...], tuple[int | str, ...]]:
        """The columns of the source and of the target."""
        source, target = (side if isinstance(side, tuple) else (side,) for side in (self.source, self.target))
        return source, target

    @property
    def named(self) -> bool:
        """Whether columns are fields of JSON lines."""
        return isinstance(self.sides[0][0], str)

    @model_validator(mode="after")
    def _consistent(self) -> ColumnFiles:
        if not all(self.sides):
            raise ValueError("source and target need a column each")
        require_files(self, [column for side in self.sides for column in side])
        return self


class PairColumns(Settings):
    """columns: pairs in columns of a file."""

    columns: ColumnFiles | None = None


def pairs(path: Path, columns: ColumnFiles) -> Iterator[Sides]:
    """The (source, target) of every line, plain or gzipped. Quotes have no special meaning in tab-separated files.

    If a field contains a list, its first item is used. Raises UserError with file and line for a line that lacks a
    column, or is not a JSON object of texts.
    """
    for cells, where in rows(path, named=columns.named):
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


def _resolve(request: Request) -> ResolvedSource:
    settings = request.settings
    ending = "jsonl" if settings.named else "tsv"
    files = one_file_per_split(settings.folder or settings.files, ending, request.base)
    return ColumnsSource(pair_fields(request.pair, two=True), request.limit, files, settings)


COLUMNS = SourceKind(name="columns", fields=PairColumns, resolve=_resolve, one_text=lambda settings: False)
