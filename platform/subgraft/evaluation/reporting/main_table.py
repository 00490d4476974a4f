"""The main table as it is kept beside a report, so that showing it again takes no arithmetic."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from subgraft.evaluation.reporting.findings import remarks
from subgraft.evaluation.reporting.numbers import MISSING, count, fixed, probability, signed
from subgraft.evaluation.reporting.records import ReportData
from subgraft.evaluation.reporting.summary import SystemSummary, summarise
from subgraft.evaluation.reporting.unknown_token_analysis import unspelled_caption

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


# The main table, from everything that a report is made of.


def terminal_table(data: ReportData) -> MainTable:
    """Each system with every seed's BLEU, mean, difference, p, bits per character, tokens and sentences per second.

    Bits per character are those of the weights that are kept, as all else is.
    Where forgetting was measured, BLEU on the upstream test set comes last.
    """
    caption = f"{count(len(data.references))} test sentences; Δ and p against {data.baseline or 'nothing'}"
    caption += unspelled_caption(data)
    caption += "".join(f"\n{remark}" for remark in remarks(data))
    if data.generated:
        caption += "\nbuilt-in generated corpus: it shows the machinery, not that a method wins"
    seeds = [f"BLEU\nseed {seed}" for seed in data.seeds] if len(data.seeds) > 1 else []
    forgotten = ["upstr.\nBLEU"] if _with_upstream(data) else []
    figures = (*seeds, "BLEU", "Δ", "p", "bits/\nchar", "tokens/\nsent.", "sent./\ns", *forgotten)
    systems = tuple((system.name, *_cells(system, data)) for system in summarise(data))
    return MainTable(data.title, caption, ("system", *figures), systems)


def _cells(system: SystemSummary, data: ReportData) -> list[str]:
    bleu = system.metrics["BLEU"]
    seeds = [fixed(bleu.by_seed.get(seed)) for seed in data.seeds] if len(data.seeds) > 1 else []
    comparison = bleu.comparison
    against = [signed(comparison.difference), probability(comparison.p_value)] if comparison else [MISSING, MISSING]
    figures = [
        fixed(system.bits.kept, 3),
        fixed(system.tokens_per_sentence, 1),
        fixed(system.sentences_per_second, 1),
    ]
    upstream = [fixed(system.forgetting.after if system.forgetting else None)] if _with_upstream(data) else []
    return [*seeds, fixed(bleu.mean), *against, *figures, *upstream]


def _with_upstream(data: ReportData) -> bool:
    return any(system.forgetting is not None for system in data.systems)
