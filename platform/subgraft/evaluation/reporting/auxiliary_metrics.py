"""Sections of a report on calibration, forgetting and intrinsic quality; each is omitted if it has no data."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, NamedTuple

from subgraft.evaluation.metrics.calibration import BINS, Bin
from subgraft.evaluation.reporting import drawing
from subgraft.evaluation.reporting.document import Block, Figure, Paragraph, Section
from subgraft.evaluation.reporting.findings import on_few_seeds
from subgraft.evaluation.reporting.numbers import MISSING, count, fixed, interval, percent, probability, signed
from subgraft.evaluation.reporting.plots import system_looks
from subgraft.evaluation.reporting.records import Intrinsic, ReportData
from subgraft.evaluation.reporting.summary import ForgettingSummary, SystemSummary, summarise
from subgraft.evaluation.reporting.table import Span, Text, table, text

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def calibration(data: ReportData) -> list[Section]:
    """Reliability diagrams of the systems whose calibration was measured."""
    systems = [system for system in summarise(data) if any(confidence_bin.count for confidence_bin in system.bins)]
    if not systems:
        return []
    caption = (
        f"Tokens of the test outputs in {BINS} bins of probability, all seeds; the larger the dot, the more tokens. "
        "Below the diagonal (orange) a model is overconfident, above it (blue) underconfident. Right is what the "
        "TER alignment pairs with an equal token of the reference, in the system's own tokens."
    )
    diagrams = [Reliability(system.name, system.bins, system.inference_ece) for system in systems]
    return [Section("Calibration", (Figure("reliability", plot_reliability(diagrams), caption),))]


def forgetting(data: ReportData) -> list[Section]:
    """BLEU on the upstream test set before and after finetuning."""
    systems = [system for system in summarise(data) if system.forgetting is not None]
    if not systems:
        return []
    comparison = table(
        ["system", "upstream BLEU\nbefore", "upstream BLEU\nafter", "Δ upstream BLEU\n[95 %]", "p"],
        [_forgetting_cells(system.name, system.forgetting) for system in systems if system.forgetting is not None],
        "The upstream test set, translated before finetuning and after",
        "Before: the system's initial model with its own vocabulary, before any transfer.",
        "Intervals and p-values: paired bootstrap as for the task's test set, without a correction for the number of "
        "systems. A negative difference is forgetting.",
        *on_few_seeds({system.name: len(system.seeds) for system in systems}),
    )
    return [Section("Forgetting", (comparison,))]


def _forgetting_cells(name: str, summary: ForgettingSummary) -> list[str | Text]:
    change = summary.change
    if change is None:
        return [name, MISSING, fixed(summary.after), MISSING, MISSING]
    difference = text(signed(change.difference), "\n", Span(interval(change.interval), "faint"))
    return [name, fixed(summary.before), fixed(summary.after), difference, probability(change.p_value)]


def intrinsic_quality(data: ReportData) -> list[Section]:
    """How well each initialiser reproduces known embedding rows."""
    measured = [system for system in summarise(data) if system.intrinsic]
    if not measured:
        return []
    sides = list(dict.fromkeys(side for system in measured for side in system.intrinsic))
    blocks: list[Block] = [Paragraph(text(_INTRINSIC_NOTE))]
    for side in sides:
        systems = [system for system in measured if side in system.intrinsic]
        caption = f"Rows made for held-out tokens, against the true ones; {side}; means over tokens and seeds."
        blocks.append(Figure(f"intrinsic_{side}", plot_intrinsic(data, systems, side), caption))
        blocks.append(_intrinsic_table(systems, side))
    return [Section("Intrinsic quality", tuple(blocks))]


_INTRINSIC_NOTE = (
    "A sample of word-like tokens that both vocabularies have is taken out of the upstream vocabulary, all at once. "
    "Each system's initialiser makes their input rows as if they were unseen. This is measured before finetuning: a "
    "row that is far from the true one may still be learnt. Vocabularies of other sizes have other samples."
)


def _intrinsic_table(systems: Sequence[SystemSummary], side: str) -> Block:
    headings = ["system", "held-out\ntokens", "cosine\nmean", "cosine\nmedian", "mean reciprocal\nrank"]
    headings += ["hits\nat 1", "hits\nat 10"]
    note = "Rank: of the true row among all upstream rows, by their cosine with the row that was made."
    body = [[system.name, *_intrinsic_cells(system.intrinsic[side])] for system in systems]
    return table(headings, body, f"Held-out tokens of the {side}", note)


def _intrinsic_cells(quality: Intrinsic) -> list[str]:
    return [
        count(quality.tokens),
        fixed(quality.cosine, 3),
        fixed(quality.median_cosine, 3),
        fixed(quality.reciprocal_rank, 3),
        percent(quality.hits_at_1),
        percent(quality.hits_at_10),
    ]


# Plots of auxiliary metrics: reliability diagrams, and the quality of held-out tokens' rows.

_MAX_COLUMNS = 5  # panels in a row
# Their position above or below the diagonal distinguishes them too.
_OVERCONFIDENT, _UNDERCONFIDENT = "#D55E00", "#0072B2"


class Reliability(NamedTuple):
    """A system's predictions by confidence, and their expected calibration error."""

    name: str
    bins: Sequence[Bin]
    error: float | None


@drawing.for_narrow_screens
def plot_reliability(systems: Sequence[Reliability], predicted: str = "token") -> bytes:
    """A panel per system: accuracy by confidence; the size of a dot is its share of all predictions.

    Below the diagonal the model is overconfident.
    """
    columns = min(len(systems), drawing.max_columns(_MAX_COLUMNS))
    rows = math.ceil(len(systems) / columns)
    with drawing.new_figure(10, 0.5 + 2.15 * rows) as figure:
        panels = figure.subplots(rows, columns, sharex=True, sharey=True, squeeze=False).ravel()
        for panel, system in zip(panels, systems, strict=False):
            _draw_reliability(panel, system.bins)
            panel.set_title(system.name, fontsize=drawing.SMALL + 0.5)
            panel.text(0.04, 0.9, f"ECE {fixed(system.error, 3)}", fontsize=drawing.SMALL, transform=panel.transAxes)
        for panel in panels[len(systems) :]:
            panel.set_visible(False)
        figure.supxlabel(f"probability of a {predicted}", fontsize=9.5, color="#4a5260")
        figure.supylabel("share that is right", fontsize=9.5, color="#4a5260")
        return drawing.png(figure)


def _draw_reliability(panel: Axes, bins: Sequence[Bin]) -> None:
    total = sum(group.count for group in bins)
    filled = [
        (group.confidence, group.accuracy, group.count)
        for group in bins
        if group.confidence is not None and group.accuracy is not None
    ]
    confidences, accuracies, counts = zip(*filled, strict=True)
    colours = [
        _OVERCONFIDENT if confidence > accuracy else _UNDERCONFIDENT
        for confidence, accuracy in zip(confidences, accuracies, strict=True)
    ]
    panel.plot([0, 1], [0, 1], color="#9aa1ac", linewidth=1, linestyle="--", zorder=1)
    panel.vlines(confidences, confidences, accuracies, color=colours, linewidth=1.1, alpha=0.65, zorder=2)
    panel.scatter(
        confidences, accuracies, s=[6 + 260 * count / total for count in counts], color=colours, alpha=0.85, zorder=3
    )
    panel.set(xlim=(0, 1), ylim=(0, 1.06), aspect="equal", xticks=[0, 0.5, 1], yticks=[0, 0.5, 1])


@drawing.for_narrow_screens
def plot_intrinsic(data: ReportData, systems: Sequence[SystemSummary], side: str) -> bytes:
    """Bars by system: mean cosine, mean reciprocal rank, and how often the true row is among the nearest ten."""
    looks, names = system_looks(data), [system.name for system in systems]
    colours = [looks[name].colour for name in names]
    panels: list[tuple[str, Callable[[Intrinsic], float]]] = [
        ("Mean cosine", lambda quality: quality.cosine),
        ("Mean reciprocal rank", lambda quality: quality.reciprocal_rank),
        ("True row among the nearest 10", lambda quality: quality.hits_at_10),
    ]
    with drawing.new_figure(10, 1.1 + 0.34 * len(systems)) as figure:
        axes = drawing.side_by_side(figure, len(panels), sharey=True)
        for panel, (title, value) in zip(axes, panels, strict=True):
            values = [value(system.intrinsic[side]) for system in systems]
            drawing.bars(panel, names, values, [fixed(number, 3) for number in values], colours)
            low, high = min(0.0, *values), max(0.0, *values)
            panel.set(title=title, xlim=(low - (0.22 * (high - low) if low else 0), high + 0.16 * (high - low) or 1))
            panel.locator_params(axis="x", nbins=4)
        return drawing.png(figure)
