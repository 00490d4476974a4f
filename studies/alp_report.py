"""ALP and the scores of models: a table, correlations with their intervals, and a plot."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean

import numpy as np

from seeds import grouped, spread
from subgraft.evaluation.reporting.drawing import SMALL, new_figure, png

# What ALP may go with, of a run.
Measured = Callable[["Run"], float]
# Intervals are those of Fisher's z, which fewer points have not, and no correlation of 1.
LEAST, CLOSEST, NORMAL = 4, 1 - 1e-9, 1.959964
MISSING = "–"


@dataclass(frozen=True)
class Run:
    """One model. size: of the vocabulary.  byte_share: of the tokens of the training text.

    unigram_bits: ALP in bits per character, as the text's own unigram predicts it.  curve: points of a training, their
    value in bits per character.  scores: of each task.
    """

    vocabulary: str
    seed: int
    size: int
    parameters: int
    alp: float
    held_out_alp: float
    unigram_bits: float
    characters_per_token: float
    byte_share: float
    curve: Sequence[Mapping[str, float]]
    scores: Mapping[str, Mapping[str, float]]

    @property
    def bits(self) -> float:
        return self.curve[-1]["value"]

    @property
    def seconds(self) -> float:
        return self.curve[-1]["seconds"]

    def bits_after(self, seconds: float) -> float:
        """Between the two points around that time, by a line."""
        times, values = zip(*((each["seconds"], each["value"]) for each in self.curve), strict=True)
        return float(np.interp(seconds, times, values))

    @property
    def of_one_series(self) -> bool:
        """Whether it is one of the vocabularies that differ in size alone."""
        return self.vocabulary == f"bpe-{self.size}"


def write(runs: Sequence[Run], out: Path) -> str:
    """table.md and alp.png in a folder; returns the table."""
    measures = _measures(runs)
    markdown = f"{_table(runs, measures)}\n\n{_correlations(runs, measures)}\n"
    (out / "table.md").write_text(markdown, encoding="utf-8")
    (out / "alp.png").write_bytes(_drawn(runs, measures))
    return markdown


def _measures(runs: Sequence[Run]) -> dict[str, Measured]:
    shortest = min(each.seconds for each in runs)
    tasks = list(runs[0].scores)
    return {
        "bits per character": lambda run: run.bits,
        f"the same after {shortest:.0f} CPU s": lambda run: run.bits_after(shortest),
        **{f"{task} accuracy": lambda run, task=task: 100 * run.scores[task]["accuracy"] for task in tasks},  # type: ignore[misc]
        **{f"{task} macro-F1": lambda run, task=task: 100 * run.scores[task]["macro_f1"] for task in tasks},  # type: ignore[misc]
    }


def _table(runs: Sequence[Run], measures: Mapping[str, Measured]) -> str:
    about = ("vocabulary", "ALP", "held-out ALP", "unigram bits", "characters a token", "bytes", "parameters", "CPU s")
    rows = ["| " + " | ".join([*about, *measures]) + " |", "|---" * (len(about) + len(measures)) + "|"]
    for name, group in _grouped(runs).items():
        one = group[0]
        cells = [name, f"{one.alp:.1f}", f"{one.held_out_alp:.1f}", f"{one.unigram_bits:.3f}"]
        cells += [
            f"{one.characters_per_token:.2f}",
            f"{100 * one.byte_share:.1f} %",
            f"{one.parameters:,}",
            f"{fmean(run.seconds for run in group):.0f}",
        ]
        cells += [spread([measure(run) for run in group]) for measure in measures.values()]
        rows.append("| " + " | ".join(cells) + " |")
    return "\n".join(rows)


def _correlations(runs: Sequence[Run], measures: Mapping[str, Measured]) -> str:
    """Pearson's r over vocabularies, each one point whatever its seeds, with its 95 % interval, of ALP and others."""
    series = [run for run in runs if run.of_one_series]
    columns: dict[str, tuple[Sequence[Run], Measured]] = {
        "ALP, sizes alone": (series, lambda run: run.alp),
        "ALP, all": (runs, lambda run: run.alp),
        "log size, all": (runs, lambda run: math.log(run.size)),
        "log parameters, all": (runs, lambda run: math.log(run.parameters)),
    }
    rows = ["| r with | " + " | ".join(columns) + " |", "|---" * (len(columns) + 1) + "|"]
    for name, measure in measures.items():
        cells = [_correlation(chosen, other, measure) for chosen, other in columns.values()]
        rows.append(f"| {name} | " + " | ".join(cells) + " |")
    return "\n".join(rows)


def _correlation(runs: Sequence[Run], one: Measured, other: Measured) -> str:
    groups = _grouped(runs).values()
    left, right = ([fmean(measure(run) for run in group) for group in groups] for measure in (one, other))
    if len(groups) < LEAST or any(min(values) == max(values) for values in (left, right)):
        return MISSING
    r = float(np.corrcoef(left, right)[0, 1])
    middle, half = math.atanh(max(-CLOSEST, min(r, CLOSEST))), NORMAL / math.sqrt(len(groups) - 3)
    return f"{r:+.2f} [{math.tanh(middle - half):+.2f}, {math.tanh(middle + half):+.2f}]"


def _drawn(runs: Sequence[Run], measures: Mapping[str, Measured]) -> bytes:
    """A panel for each measure but macro-F1, which goes as accuracy does where classes are of one size."""
    shown = {name: measure for name, measure in measures.items() if "F1" not in name}
    with new_figure(3.4 * len(shown), 3.2) as figure:
        for panel, (name, measure) in zip(np.atleast_1d(figure.subplots(1, len(shown))), shown.items(), strict=True):
            for vocabulary, group in _grouped(runs).items():
                colour = "#0072B2" if group[0].of_one_series else "#D55E00"
                panel.scatter([run.alp for run in group], [measure(run) for run in group], s=16, color=colour)
                at = (group[0].alp, fmean(measure(run) for run in group))
                panel.annotate(vocabulary, at, xytext=(4, 4), textcoords="offset points", fontsize=SMALL - 2)
            panel.margins(x=0.2, y=0.1)
            panel.set(title=name, xlabel="ALP, nats a sentence")
        return png(figure)


def _grouped(runs: Sequence[Run]) -> dict[str, list[Run]]:
    """By vocabulary, in the order of ALP."""
    groups = grouped(runs, lambda run: run.vocabulary)
    return dict(sorted(groups.items(), key=lambda item: item[1][0].alp))
