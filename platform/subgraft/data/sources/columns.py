"""Pairs of texts in columns: tab-separated files, and JSON lines with named fields."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

from subgraft.base import json_lines
from subgraft.config.settings_base import Split
from subgraft.config.source_files import ColumnFiles
from subgraft.base.errors import UserError
from subgraft.data.sources.field_text import text_of
from subgraft.data.sources.resolved_corpus import PairFilesSource
from subgraft.data.text import reading
from subgraft.data.text.fields import Sides

# A line by its columns: numbers from 1, or names.
Cells: TypeAlias = Mapping[Any, object]


def pairs(path: Path, columns: ColumnFiles) -> Iterator[Sides]:
    """The (source, target) of every line, plain or gzipped. Quotes mean nothing in tab-separated files.

    Of a field that holds a list the first item is taken. Raises UserError naming file and line for a line that lacks
    a column, or is no JSON object of texts.
    """
    lines = reading.lines(path)
    rows: Iterable[Cells] = json_lines.objects(lines, path) if columns.named else map(_tab_separated, lines)
    source, target = columns.sides
    for number, cells in enumerate(rows, 1):
        texts = [
            columns.separator.join(_cell(cells, column, f"{path}:{number}") for column in side)
            for side in (source, target)
        ]
        yield tuple(texts)


def _tab_separated(line: str) -> Cells:
    return dict(enumerate(line.split("\t"), 1))


def _cell(cells: Cells, column: int | str, where: str) -> str:
    if column not in cells:
        what = f"no field '{column}'" if isinstance(column, str) else f"no column {column}"
        has = ", ".join(map(str, cells)) if isinstance(column, str) else f"{len(cells)} columns"
        raise UserError(what, where=where, hint=f"The line has: {has or 'none'}.")
    value = cells[column]
    return text_of(value[0] if isinstance(value, list) and value else value, column, where)


@dataclass(frozen=True)
class ColumnsSource(PairFilesSource):
    """Pairs in the columns of a file for each split."""

    columns: ColumnFiles

    def _origin(self) -> dict[str, object]:
        form = self.columns.model_dump(mode="json", exclude={"folder", "files"})
        return {"columns": form, "files": self._digests}

    def _segments(self, split: Split) -> Iterator[Sides]:
        return pairs(self.files[split], self.columns)

    def _counted(self, split: Split) -> int:
        count = sum(1 for _ in self._segments(split))
        if count == 0:
            raise UserError("an empty corpus", where=str(self.files[split]))
        return count
