"""Tables of short texts: as Markdown and HTML, and the main table, which is stored for the terminal."""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, Literal, NamedTuple

from rich.cells import cell_len

if TYPE_CHECKING:
    from subgraft.base import terminal


Style = Literal["plain", "strong", "code", "mark", "faint", "warning"]
Alignment = Literal["left", "right"]


class Span(NamedTuple):
    """A stretch of text in one style. `mark` highlights a word; `warning` marks a reason to doubt a number."""

    text: str
    style: Style = "plain"


Text = tuple[Span, ...]

LONGEST_NAME = 40  # characters, of a row

# Markdown's special characters: emphasis, code, tags, entities, links; at the start of a line quotes, headings, lists.
_SPECIAL = re.compile(
    r"[\\`*<~]|(?<![^\W_])_|_(?![^\W_])|&(?=#?\w+;)|\](?=[(\[:])|\[(?=\^)|^[#>+-](?=\s)", re.MULTILINE
)


def text(*parts: str | Span) -> Text:
    """Strings and spans as one text."""
    return tuple(part if isinstance(part, Span) else Span(part) for part in parts)


@dataclass(frozen=True)
class Column:
    """A column's heading, and the alignment of its cells."""

    heading: str
    alignment: Alignment = "right"


@dataclass(frozen=True)
class Table:
    """Rows of cells under columns, and notes below. A line break in a cell is a space in Markdown."""

    kind: ClassVar[str] = "table"
    columns: tuple[Column, ...]
    rows: tuple[tuple[Text, ...], ...]
    caption: str = ""
    notes: tuple[Text, ...] = ()

    @property
    def names_rows(self) -> bool:
        """Whether the first cells are short enough to be names, in which the page breaks no line."""
        return all(
            len(line) <= LONGEST_NAME
            for row in self.rows
            for line in "".join(span.text for span in row[0]).splitlines()
        )


def table(
    headings: Sequence[str],
    rows: Sequence[Sequence[str | Text]],
    caption: str = "",
    *notes: str | Text,
    left: Collection[int] = (0,),
) -> Table:
    """A table whose cells and notes may be plain strings. left: columns that are flush left; negative from the end."""
    left_columns = {index % len(headings) for index in left}
    columns = tuple(
        Column(heading, "left" if index in left_columns else "right") for index, heading in enumerate(headings)
    )
    cells = tuple(tuple(map(_as_text, row)) for row in rows)
    return Table(columns, cells, caption, tuple(map(_as_text, notes)))


def _as_text(cell: str | Text) -> Text:
    return text(cell) if isinstance(cell, str) else cell


def table_markdown(content: Table) -> str:
    """A pipe table whose columns line up in a fixed-width font, wide characters included."""
    heading = [_cell_markdown(text(column.heading)) for column in content.columns]
    body = [[_cell_markdown(cell) for cell in row] for row in content.rows]
    widths = [max(3, *(cell_len(row[index]) for row in [heading, *body])) for index in range(len(heading))]
    rule = [
        "-" * (width - 1) + (":" if column.alignment == "right" else "-")
        for column, width in zip(content.columns, widths, strict=True)
    ]
    lines = [_line(row, content.columns, widths) for row in [heading, rule, *body]]
    return "\n".join(lines)


def _cell_markdown(cell: Text) -> str:
    return text_markdown(cell).replace("\n", " ").replace("|", r"\|")


def _line(cells: Sequence[str], columns: Sequence[Column], widths: Sequence[int]) -> str:
    padded = []
    for cell, column, width in zip(cells, columns, widths, strict=True):
        space = " " * (width - cell_len(cell))
        padded.append(space + cell if column.alignment == "right" else cell + space)
    return f"| {' | '.join(padded)} |"


def text_markdown(content: Text) -> str:
    """The text in Markdown, with special characters escaped."""
    return "".join(_span_markdown(span) for span in content)


def _span_markdown(span: Span) -> str:
    if span.style == "code":
        fence = code_fence(span.text)
        space = " " if span.text[:1] == "`" or span.text[-1:] == "`" else ""
        return f"{fence}{space}{span.text}{space}{fence}"
    escaped = escape_markdown(span.text)
    return f"**{escaped}**" if span.style in ("strong", "mark", "warning") and escaped.strip() else escaped


def code_fence(code: str, least: int = 1) -> str:
    """Backticks around code: more than any run of them inside."""
    return "`" * max(least, 1 + max(map(len, re.findall("`+", code)), default=0))


def escape_markdown(plain: str) -> str:
    """Plain text as Markdown that renders as the same text; outside tables a pipe needs no escape."""
    return _SPECIAL.sub(r"\\\g<0>", plain)


FILE = "table.json"


@dataclass(frozen=True)
class MainTable:
    """A table for a terminal.

    headings: of the first column, which names systems, and of the columns of figures.  rows: their cells.
    answer: of the comparison, in words.
    """

    title: str
    caption: str
    headings: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    answer: str = ""

    @classmethod
    def read(cls, report: Path) -> MainTable:
        """From the directory of a finished report."""
        stored = json.loads((report / FILE).read_text(encoding="utf-8"))
        rows = tuple(map(tuple, stored["rows"]))
        return cls(stored["title"], stored["caption"], tuple(stored["headings"]), rows, stored.get("answer", ""))

    def write(self, report: Path) -> None:
        (report / FILE).write_text(json.dumps(asdict(self), ensure_ascii=False, indent=1) + "\n", encoding="utf-8")

    def rich(self) -> terminal.Table:
        """The table for a terminal. Two seeds fit into eighty columns; narrower ones fold names, never numbers."""
        from rich.box import SIMPLE_HEAD

        from subgraft.base import terminal

        table = terminal.Table(
            title=self.title, caption=self.caption, caption_justify="left", title_justify="left", box=SIMPLE_HEAD
        )
        table.padding, table.pad_edge = (0, 1, 0, 0), False
        names, *figures = self.headings
        table.add_column(names, overflow="fold")
        for heading in figures:
            table.add_column(heading, justify="right", no_wrap=True)
        for row in self.rows:
            table.add_row(*row)
        return table
