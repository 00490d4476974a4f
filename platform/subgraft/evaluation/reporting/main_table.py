"""The main table, stored next to a report so that it can be shown again without computing it."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.table import Table


FILE = "table.json"


@dataclass(frozen=True)
class MainTable:
    """headings: of the first column, which names systems, and of the columns of figures.  rows: their cells."""

    title: str
    caption: str
    headings: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]

    @classmethod
    def read(cls, report: Path) -> MainTable:
        """From the directory of a finished report."""
        found = json.loads((report / FILE).read_text(encoding="utf-8"))
        return cls(found["title"], found["caption"], tuple(found["headings"]), tuple(map(tuple, found["rows"])))

    def write(self, report: Path) -> None:
        (report / FILE).write_text(json.dumps(asdict(self), ensure_ascii=False, indent=1) + "\n", encoding="utf-8")

    def rich(self) -> Table:
        """For a terminal. Eighty columns are enough for two seeds; a narrower one folds the names, never a figure."""
        from rich.box import SIMPLE_HEAD

        from subgraft.base.terminal import Sheet

        shown = Sheet(
            title=self.title, caption=self.caption, caption_justify="left", title_justify="left", box=SIMPLE_HEAD
        )
        shown.padding, shown.pad_edge = (0, 1, 0, 0), False
        names, *figures = self.headings
        shown.add_column(names, overflow="fold")
        for heading in figures:
            shown.add_column(heading, justify="right", no_wrap=True)
        for row in self.rows:
            shown.add_row(*row)
        return shown
