"""Plots of what is measured beside the scores: reliability diagrams, and the quality of held-out tokens' rows."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from subgraft.evaluation.metrics.calibration import Bin
from subgraft.evaluation.reporting.records import Intrinsic, ReportData
from subgraft.evaluation.reporting.drawing import SMALL, across, drawing, for_narrow_screens, png, side_by_side
from subgraft.evaluation.reporting.numbers import fixed
from subgraft.evaluation.reporting.plots import name_systems, system_looks
from subgraft.evaluation.reporting.summary import SystemSummary

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_ACROSS = 5  # panels beside one another
_SURE, _UNSURE = "#D55E00", "#0072B2"  # told apart by where they lie, above or below the diagonal, as well


@for_narrow_screens
def plot_reliability(systems: Sequence[SystemSummary]) -> bytes:
    """A panel per system: how often tokens are right, by how sure the model is of them; dots as large as their share.

    Below the diagonal the model is too sure of itself.
    """
    columns = min(len(systems), across(_ACROSS))
    down = math.ceil(len(systems) / columns)
    with drawing(10, 0.5 + 2.15 * down) as figure:
        panels = figure.subplots(down, columns, sharex=True, sharey=True, squeeze=False).ravel()
        for panel, system in zip(panels, systems, strict=False):
            _draw_reliability(panel, system.bins)
            panel.set_title(system.name, fontsize=SMALL + 0.5)
            panel.text(0.04, 0.9, f"ECE {fixed(system.inference_ece, 3)}", fontsize=SMALL, transform=panel.transAxes)
        for panel in panels[len(systems) :]:
            panel.set_visible(False)
        figure.supxlabel("probability of a token", fontsize=9.5, color="#4a5260")
        figure.supylabel("share that is right", fontsize=9.5, color="#4a5260")
        return png(figure)


def _draw_reliability(panel: Axes, bins: Sequence[Bin]) -> None:
    whole = sum(each.count for each in bins)
    filled = [(b.confidence, b.accuracy, b.count) for b in bins if b.confidence is not None and b.accuracy is not None]
    sure, right, counts = zip(*filled, strict=True)
    colours = [_SURE if s > r else _UNSURE for s, r in zip(sure, right, strict=True)]
    panel.plot([0, 1], [0, 1], color="#9aa1ac", linewidth=1, linestyle="--", zorder=1)
    panel.vlines(sure, sure, right, color=colours, linewidth=1.1, alpha=0.65, zorder=2)
    panel.scatter(sure, right, s=[6 + 260 * count / whole for count in counts], color=colours, alpha=0.85, zorder=3)
    panel.set(xlim=(0, 1), ylim=(0, 1.06), aspect="equal", xticks=[0, 0.5, 1], yticks=[0, 0.5, 1])


@for_narrow_screens
def plot_intrinsic(data: ReportData, systems: Sequence[SystemSummary], side: str) -> bytes:
    """Bars by system: mean cosine, mean reciprocal rank, and how often the true row is among the nearest ten."""
    shown = system_looks(data)
    panels: list[tuple[str, Callable[[Intrinsic], float]]] = [
        ("Mean cosine", lambda found: found.cosine),
        ("Mean reciprocal rank", lambda found: found.reciprocal_rank),
        ("True row among the nearest 10", lambda found: found.hits_at_10),
    ]
    with drawing(10, 1.1 + 0.34 * len(systems)) as figure:
        drawn = side_by_side(figure, len(panels), sharey=True)
        for panel, (title, value) in zip(drawn, panels, strict=True):
            values = [value(system.intrinsic[side]) for system in systems]
            bars = panel.barh(
                range(len(systems)), values, color=[shown[system.name].colour for system in systems], height=0.62
            )
            panel.bar_label(bars, labels=[fixed(each, 3) for each in values], padding=3, fontsize=SMALL)
            low, high = min(0.0, *values), max(0.0, *values)
            panel.set(title=title, xlim=(low - (0.22 * (high - low) if low else 0), high + 0.16 * (high - low) or 1))
            panel.locator_params(axis="x", nbins=4)
            name_systems(panel, systems)
        return png(figure)
