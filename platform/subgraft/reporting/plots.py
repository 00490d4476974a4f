"""The report's plots, each as the bytes of a PNG. No display, no global state."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from subgraft.metrics.scores import LOWER_IS_BETTER, METRICS
from subgraft.reporting.data import CurvePoint, ReportData, RowResult
from subgraft.reporting.numbers import duration
from subgraft.reporting.palette import looks
from subgraft.reporting.summary import RowSummary

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_STYLE: dict[Any, Any] = {
    "font.family": "DejaVu Sans",
    "font.size": 9.5,
    "axes.titlesize": 10.5,
    "axes.titleweight": "bold",
    "axes.titlelocation": "left",
    "axes.edgecolor": "#9aa1ac",
    "axes.labelcolor": "#4a5260",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.color": "#e6e9ee",
    "xtick.color": "#4a5260",
    "ytick.color": "#4a5260",
    "legend.frameon": False,
}
# A ramp, so that no part of a bill is taken for a row.
_BILL_COLOURS = {"upstream": "#d3d8df", "generator": "#8c9fb2", "finetuning": "#3f5468"}


def plot_learning_curves(data: ReportData) -> bytes:
    """Bits per character and BLEU on dev over finetuning steps: seeds as thin lines, their mean as a thick one."""
    has_bleu = any(point.dev_bleu is not None for row in data.rows for point in row.curve)
    with _drawing(10, 4.2) as figure:
        panels = figure.subplots(1, 2 if has_bleu else 1, squeeze=False)[0]
        _draw_curves(panels[0], data, lambda point: point.dev_bits_per_character)
        panels[0].set(title="Bits per character on dev (lower is better)", xlabel="finetuning step")
        if has_bleu:
            _draw_curves(panels[1], data, lambda point: point.dev_bleu)
            panels[1].set(title="BLEU on dev (higher is better)", xlabel="finetuning step")
        handles, labels = panels[0].get_legend_handles_labels()
        figure.legend(handles, labels, loc="outside upper left", ncols=min(len(labels), 5))
        return _png(figure)


def plot_scores(data: ReportData, rows: Sequence[RowSummary]) -> bytes:
    """Mean test scores with 95 % intervals, every seed as a dot, the baseline's mean as a line."""
    shown = looks(data.row_names, data.baseline)
    with _drawing(10, 1.3 + 0.42 * len(rows)) as figure:
        panels = figure.subplots(1, len(METRICS), sharey=True, squeeze=False)[0]
        for panel, metric in zip(panels, METRICS, strict=True):
            for place, row in enumerate(rows):
                summary, colour = row.metrics[metric], shown[row.name].colour
                panel.hlines(place, summary.interval.low, summary.interval.high, color=colour, linewidth=2.2)
                panel.plot(summary.mean, place, "o", color=colour, markersize=7)
                seeds = list(summary.by_seed.values())
                panel.plot(seeds, [place + 0.24] * len(seeds), "o", color=colour, markersize=3.2, alpha=0.75)
                if row.name == data.baseline:
                    panel.axvline(summary.mean, color=colour, linewidth=1, linestyle=":")
            better = " (low is good)" if metric in LOWER_IS_BETTER else ""
            panel.set(title=f"{metric}{better}", ylim=(len(rows) - 0.5, -0.5))
            panel.set_yticks(range(len(rows)), [row.name for row in rows])
            panel.tick_params(axis="y", length=0)
            panel.locator_params(axis="x", nbins=4)
            panel.grid(axis="y", visible=False)
        return _png(figure)


def plot_costs(data: ReportData, rows: Sequence[RowSummary]) -> bytes:
    """Sentences per second in generation, and the seconds billed for one model of each row."""
    shown = looks(data.row_names, data.baseline)
    names = [row.name for row in rows]
    with _drawing(10, 1.5 + 0.42 * len(rows)) as figure:
        speed, bills = figure.subplots(1, 2, sharey=True)
        rates = [row.sentences_per_second for row in rows]
        bars = speed.barh(names, rates, color=[shown[name].colour for name in names], height=0.62)
        speed.bar_label(bars, labels=[f"{rate:.1f}" for rate in rates], padding=3, fontsize=8.5)
        speed.set(title="Sentences generated per second", ylim=(len(rows) - 0.5, -0.5), xlim=(0, 1.12 * max(rates)))
        _draw_bills(bills, rows)
        for panel in (speed, bills):
            panel.grid(axis="y", visible=False)
            panel.tick_params(axis="y", length=0)
        return _png(figure)


def plot_stage_seconds(seconds: Mapping[str, float]) -> bytes:
    """Total seconds per stage, in the order given."""
    with _drawing(10, 1.1 + 0.34 * len(seconds)) as figure:
        panel = figure.subplots()
        bars = panel.barh(list(seconds), list(seconds.values()), color="#56789a", height=0.62)
        panel.bar_label(bars, labels=[duration(value) for value in seconds.values()], padding=3, fontsize=8.5)
        panel.set(title="Seconds per stage, all rows and seeds", ylim=(len(seconds) - 0.5, -0.5))
        panel.set_xlim(0, 1.15 * max(seconds.values()) or 1)
        panel.grid(axis="y", visible=False)
        panel.tick_params(axis="y", length=0)
        return _png(figure)


def _draw_bills(panel: Axes, rows: Sequence[RowSummary]) -> None:
    left = [0.0] * len(rows)
    for part, colour in _BILL_COLOURS.items():
        widths = [float(getattr(row.bill, part)) for row in rows]
        panel.barh([row.name for row in rows], widths, left=left, color=colour, height=0.62, label=part)
        left = [start + width for start, width in zip(left, widths, strict=True)]
    for place, total in enumerate(left):
        panel.annotate(duration(total), (total, place), (3, 0), textcoords="offset points", va="center", fontsize=8.5)
    panel.set(title="Seconds billed for one model", xlim=(0, 1.2 * max(left) or 1))
    panel.legend(loc="upper center", bbox_to_anchor=(0.5, -0.14), ncols=len(_BILL_COLOURS))


def _draw_curves(panel: Axes, data: ReportData, value: Callable[[CurvePoint], float | None]) -> None:
    # The baseline goes last in depth but first in the legend: it must not cover what is compared with it.
    for name, look in looks(data.row_names, data.baseline).items():
        results = data.results(name)
        depth = 2 if name == data.baseline else 3
        for result in results if len(results) > 1 else ():
            points = [(point.step, y) for point in result.curve if (y := value(point)) is not None]
            panel.plot(*_axes(points), color=look.colour, linewidth=0.8, alpha=0.45, linestyle=look.line, zorder=depth)
        mean = _mean_curve(results, value)
        panel.plot(
            *_axes(mean),
            color=look.colour,
            linewidth=2,
            linestyle=look.line,
            marker="o",
            markersize=3.5,
            label=name,
            zorder=depth + 2,
        )
    panel.margins(x=0.025)


def _axes(points: Sequence[tuple[int, float]]) -> tuple[list[int], list[float]]:
    return [step for step, _ in points], [y for _, y in points]


def _mean_curve(results: Sequence[RowResult], value: Callable[[CurvePoint], float | None]) -> list[tuple[int, float]]:
    """The mean over seeds at every step that all of them were evaluated at."""
    by_step: dict[int, list[float]] = {}
    for result in results:
        for point in result.curve:
            if (y := value(point)) is not None:
                by_step.setdefault(point.step, []).append(y)
    return [(step, sum(ys) / len(ys)) for step, ys in sorted(by_step.items()) if len(ys) == len(results)]


@contextmanager
def _drawing(width: float, height: float) -> Iterator[Figure]:
    """An empty figure in the report's style, measured in inches."""
    import matplotlib as mpl
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    with mpl.rc_context(_STYLE):
        figure = Figure(figsize=(width, height), layout="constrained")
        FigureCanvasAgg(figure)
        yield figure


def _png(figure: Figure) -> bytes:
    buffer = io.BytesIO()
    # Without matplotlib's version in it, equal data makes equal bytes.
    figure.savefig(buffer, format="png", dpi=150, metadata={"Software": None})
    return buffer.getvalue()
