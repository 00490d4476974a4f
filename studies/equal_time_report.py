"""Results of trainings of equal time: a table, and dev bits over seconds and over updates."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean

import numpy as np

from seeds import grouped, spread
from subgraft.evaluation.reporting.drawing import Label, label_ends, new_figure, png

# Speed-ups are relative to the large vocabulary under the full softmax.
COLOURS = ("#4b5058", "#000000", "#D55E00", "#E69F00", "#0072B2", "#CC79A7", "#56B4E9", "#009E73", "#7fc9ae")
_HEIGHT = 3.8  # inches


@dataclass(frozen=True)
class Run:
    """One training. candidates: of an update, on average.  never: how many tokens were in none of its updates.

    share_of_never: the probability that these get on dev text.  curve: points, their value in bits per character.
    """

    way: str
    seed: int
    size: int
    parameters: int
    candidates: float
    never: int
    share_of_never: float
    curve: Sequence[Mapping[str, float]]


def write(runs: Sequence[Run], out: Path) -> str:
    """table.md and equal_time.png in a folder; returns the table."""
    markdown = _table(runs)
    (out / "table.md").write_text(markdown, encoding="utf-8")
    (out / "equal_time.png").write_bytes(_drawn(runs))
    return markdown


def _table(runs: Sequence[Run]) -> str:
    parts = (1, 3, 7)  # a quarter, a half, and all of the time
    last = runs[0].curve[-1]["seconds"]
    times = " | ".join(f"bits after {last * (part + 1) / 8:.0f} s" for part in parts)
    same = min(run.curve[-1]["updates"] for run in runs)
    rows = [
        f"| | subwords | parameters | candidates | updates | {times} | bits after {same:.0f} updates "
        "| never a candidate | their probability |",
        "|---" * 11 + "|",
    ]
    for way, group in grouped(runs, lambda run: run.way).items():
        one = group[0]
        cells = [way, f"{one.size:,}", f"{one.parameters:,}", f"{fmean(run.candidates for run in group):,.0f}"]
        cells.append(f"{fmean(run.curve[-1]['updates'] for run in group):,.0f}")
        cells += [spread([run.curve[part]["value"] for run in group]) for part in parts]
        cells.append(spread([_after(run, same) for run in group]))
        cells.append(f"{fmean(run.never for run in group):,.0f}")
        cells.append(f"{100 * fmean(run.share_of_never for run in group):.2f} %")
        rows.append("| " + " | ".join(cells) + " |")
    return "\n".join(rows) + "\n"


def _after(run: Run, updates: float) -> float:
    """Between the two points around that update, by a line; the first point where there is none before."""
    places, values = zip(*((point["updates"], point["value"]) for point in run.curve), strict=True)
    return float(np.interp(updates, places, values))


def _drawn(runs: Sequence[Run]) -> bytes:
    with new_figure(10.5, _HEIGHT) as figure:
        for panel, over in zip(figure.subplots(1, 2, sharey=True), ("seconds", "updates"), strict=True):
            labels = []
            for (way, group), colour in zip(grouped(runs, lambda run: run.way).items(), COLOURS, strict=False):
                for run in group:
                    panel.plot(
                        [p[over] for p in run.curve], [p["value"] for p in run.curve], color=colour, linewidth=1.3
                    )
                labels.append(Label(group[0].curve[-1][over], group[0].curve[-1]["value"], way, colour))
            panel.set(xlabel="CPU seconds" if over == "seconds" else "updates")
            panel.set(title="dev bits per character, full softmax" if over == "seconds" else "")
            if over == "seconds":
                label_ends(panel, labels, _HEIGHT)
        return png(figure)
