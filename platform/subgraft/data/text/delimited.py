"""Rows of CSV and of tab-separated files, by the names of a header."""

from __future__ import annotations

import csv
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path

from subgraft.base.errors import UserError
from subgraft.base.security.bounded_lines import LONGEST_LINE
from subgraft.data.text import reading

# The cells of a line, and its location.
Cells = tuple[Sequence[str], str]


def csv_cells(path: Path, delimiter: str = ",") -> Iterator[Cells]:
    """The cells of each row. Raises UserError, with the line, for quotes that do not fit."""
    # The limit of csv on a field is for the whole process; texts of 131,072 characters and more are usual.
    csv.field_size_limit(max(csv.field_size_limit(), LONGEST_LINE))
    reader = csv.reader((f"{line}\n" for line in reading.lines(path)), delimiter=delimiter, strict=True)
    while True:
        where = f"{path}:{reader.line_num + 1}"  # the row's first line; quoted line breaks may extend it
        try:
            cells = next(reader, None)
        except csv.Error as error:
            hint = "Enclose text with quotes, delimiters or line breaks in quotes, and double the quotes inside it."
            raise UserError(f"not CSV: {error}", where=where, hint=hint) from None
        if cells is None:
            return
        if cells:
            yield cells, where


_QUOTED = re.compile(r'"((?:[^"]|"")*)"')


def tsv_cells(path: Path) -> Iterator[Cells]:
    """Cells in quotes are unquoted if all of the first line are, or if they double the quotes inside, as pandas writes.

    Other quotes are characters of the text.
    """
    all_quoted = None
    for number, line in enumerate(reading.lines(path), 1):
        if line:
            quoted = [(cell, _QUOTED.fullmatch(cell)) for cell in line.split("\t")]
            all_quoted = all(match for _, match in quoted) if all_quoted is None else all_quoted
            yield (
                [
                    match[1].replace('""', '"') if match and (all_quoted or '""' in match[1]) else cell
                    for cell, match in quoted
                ],
                f"{path}:{number}",
            )


def with_header(lines: Iterator[Cells], path: Path) -> Iterator[tuple[dict[str, str], str]]:
    """The cells of each row by the names in the first one, and its location. Raises UserError for too many cells."""
    names, header_where = next(lines, ([], str(path)))
    names = [name.strip() for name in names]
    if repeated := sorted(name for name, count in Counter(names).items() if count > 1):
        raise UserError(f"two columns are called '{repeated[0]}'", where=header_where)
    for cells, where in lines:
        if len(cells) > len(names):
            hint = (
                f"The header has: {', '.join(names):.500}. In csv, enclose text that contains the delimiter in quotes."
            )
            raise UserError(f"{len(cells)} columns, where the header has {len(names)}", where=where, hint=hint)
        yield dict(zip(names, cells, strict=False)), where
