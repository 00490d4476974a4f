"""Rich's console without markup: strings are printed literally, and a style needs a rich `Text`."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator
from itertools import groupby
from typing import Any

from rich import table as rich_table
from rich.cells import cell_len
from rich.console import Console, ConsoleOptions, RenderableType, RenderResult
from rich.segment import Segment
from rich.text import Text

from subgraft.base.security.terminal_escaping import name_stream_in_errors, printable


class Terminal(Console):
    """Prints strings literally, also in tables: no markup, no emoji codes, and control characters escaped.

    Without a terminal it is 140 columns wide, so that tables are not truncated.
    """

    def __init__(self, **options: Any) -> None:
        super().__init__(markup=False, emoji=False, highlight=False, **options)
        if not self.is_terminal and "width" not in options and not os.environ.get("COLUMNS", "").isdecimal():
            self.width = 140

    def render_str(self, text: str, **options: Any) -> Text:
        return super().render_str(printable(text), **{**options, "markup": False, "emoji": False})

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        for segment in super().render(renderable, options):  # of a `Text` too
            yield segment if segment.control else Segment(printable(segment.text), segment.style)

    def print(self, *objects: Any, **options: Any) -> None:
        with name_stream_in_errors(self.file):
            super().print(*objects, **options)

    def on_broken_pipe(self) -> None:
        raise  # `main` handles it; rich would exit with 1, but a reader that stops early is not a failure


_TEXT_WIDTH = 24  # the width of a column of text; longer text is wrapped
_SEPARATOR = " · "
_FIGURE = re.compile(r"[-+−–×±<>≤≥~]?\d|[–-]?$")


class Table(rich_table.Table):
    """A table that never truncates or wraps figures. If it is too wide, each row is printed as a record.

    Args:
        names: The number of columns that name a row. They become the heading of its record.
    """

    def __init__(self, *headings: rich_table.Column | str, names: int = 1, **options: Any) -> None:
        super().__init__(*headings, **options)
        self._names = names

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        for column in self.columns:
            column.no_wrap = column.no_wrap or _is_figures(column)
        if self._minimum_width() <= options.max_width:
            yield from super().__rich_console__(console, options)
        else:
            yield from self._render_records(options.max_width)

    def _minimum_width(self) -> int:
        """The width of the table in characters if figures are not wrapped and text is wrapped as far as possible."""
        widths = [max(_width(cell) for cell in (column.header, *column.cells)) for column in self.columns]
        minimums = [
            width if column.no_wrap else min(width, _TEXT_WIDTH)
            for column, width in zip(self.columns, widths, strict=True)
        ]
        left, right = self.padding[3], self.padding[1]
        gap = max(left, right) if self.collapse_padding else left + right
        return sum(minimums) + len(minimums) * gap + (len(minimums) - 1 + 2 * self.show_edge if self.box else 0)

    def _render_records(self, width: int) -> Iterator[RenderableType]:
        if self.title:
            yield Text(printable(str(self.title)), style="italic")
        for row in zip(*(column.cells for column in self.columns), strict=True):
            names = [_plain(cell) for cell in row[: self._names]]
            headings = [_plain(column.header) for column in self.columns]
            fields = _label_fields(list(zip(headings, row, strict=True))[self._names :])
            yield Text(printable(" ".join(filter(None, names))), style="bold")
            yield from (Text("  ") + line for line in _pack_lines(fields, width - 2))
        if self.caption:
            yield self.caption if isinstance(self.caption, Text) else Text(printable(str(self.caption)))


def _label_fields(cells: list[tuple[str, RenderableType]]) -> Iterator[Text]:
    """Non-empty cells with their headings. Headings with the same first line, such as BLEU of each seed, are joined."""
    non_empty = [(heading, cell) for heading, cell in cells if _plain(cell)]
    for first, group in groupby(non_empty, key=lambda pair: pair[0].partition("\n")[0]):
        cells_of_heading = list(group)
        sublabels = [heading.partition("\n")[2].strip() or first for heading, _ in cells_of_heading]
        only = cells_of_heading[0][0].replace("/\n", "/").replace("\n", " ")
        label = f"{first}, {', '.join(sublabels)}" if len(cells_of_heading) > 1 else only
        yield Text(f"{label}: ", style="dim") + Text(", ").join(_as_text(cell) for _, cell in cells_of_heading)


def _pack_lines(fields: Iterable[Text], width: int) -> Iterator[Text]:
    """Pack fields into lines; only a field that is longer than a line is broken."""
    line = Text()
    for field in fields:
        if line and line.cell_len + len(_SEPARATOR) + field.cell_len > width:
            yield line
            line = Text()
        line = line + _SEPARATOR + field if line else field
    yield line


def _as_text(cell: RenderableType) -> Text:
    return cell if isinstance(cell, Text) else Text(printable(_plain(cell)).replace("\n", " "))


def _is_figures(column: rich_table.Column) -> bool:
    """Whether every cell starts like a number or is empty."""
    return column.justify == "right" or all(_FIGURE.match(_plain(cell)) for cell in column.cells)


def _plain(cell: RenderableType) -> str:
    return cell.plain if isinstance(cell, Text) else str(cell)


def _width(cell: RenderableType) -> int:
    return max(map(cell_len, _plain(cell).split("\n")))
