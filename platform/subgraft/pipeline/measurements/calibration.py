"""Calibration: how often predictions of each probability are right, as reliability diagrams."""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import fmean
from typing import TYPE_CHECKING, NamedTuple

from subgraft.evaluation.metrics.calibration import BINS, Bin, Calibration
from subgraft.evaluation.reporting import drawing
from subgraft.evaluation.reporting.document import Figure, Section
from subgraft.evaluation.reporting.numbers import fixed
from subgraft.evaluation.reporting.records import ReportData
from subgraft.pipeline.artifacts import read_evaluation
from subgraft.pipeline.measurements.measurement import MeasurementSpec, Sources

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def _read(sources: Sources) -> Calibration | None:
    evaluation = read_evaluation(sources.evaluation)
    if (calibration := evaluation.get("calibration")) is None:
        return None
    return Calibration(**{**calibration, "bins": tuple(Bin(**each) for each in calibration["bins"])})


def pooled_bins(by_seed: Sequence[Calibration]) -> tuple[Bin, ...]:
    """The bins of all seeds together, every prediction counting once; empty unless all seeds have them."""
    if not all(calibration.bins for calibration in by_seed):
        return ()
    pooled = list[Bin]()
    for bins in zip(*(calibration.bins for calibration in by_seed), strict=True):
        count = sum(each.count for each in bins)
        confidence = sum((each.confidence or 0.0) * each.count for each in bins) / count if count else None
        accuracy = sum((each.accuracy or 0.0) * each.count for each in bins) / count if count else None
        pooled.append(Bin(bins[0].low, bins[0].high, count, confidence, accuracy))
    return tuple(pooled)


def _of_tokens(data: ReportData) -> list[Section]:
    caption = (
        f"Tokens of the test outputs in {BINS} bins of probability, all seeds; the larger the dot, the more tokens. "
        "Below the diagonal (orange) a model is overconfident, above it (blue) underconfident. Right is what the "
        "TER alignment pairs with an equal token of the reference, in the system's own tokens."
    )
    return _section(data, caption, "token")


def _of_classes(data: ReportData) -> list[Section]:
    caption = (
        "Test examples by the probability of the predicted class, all seeds; the larger the dot, the more examples. "
        "Below the diagonal (orange) a model is overconfident, above it (blue) underconfident."
    )
    return _section(data, caption, "class")


def _section(data: ReportData, caption: str, predicted: str) -> list[Section]:
    """Reliability diagrams of the systems whose calibration was measured."""
    diagrams = [
        Reliability(name, pooled_bins(by_seed), fmean(calibration.error for calibration in by_seed))
        for name, by_seed in data.measured(Calibration).items()
    ]
    diagrams = [system for system in diagrams if any(each.count for each in system.bins)]
    if not diagrams:
        return []
    return [Section("Calibration", (Figure("reliability", plot_reliability(diagrams, predicted), caption),))]


_MAX_COLUMNS = 5  # panels in a row
# Their position above or below the diagonal distinguishes them too.
_OVERCONFIDENT, _UNDERCONFIDENT = "#D55E00", "#0072B2"


class Reliability(NamedTuple):
    """A system's predictions by confidence, and their expected calibration error."""

    name: str
    bins: Sequence[Bin]
    error: float | None


@drawing.for_narrow_screens
def plot_reliability(systems: Sequence[Reliability], predicted: str) -> bytes:
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


CALIBRATION = MeasurementSpec(read=_read, after_learning={"translation": _of_tokens, "labels": _of_classes})
