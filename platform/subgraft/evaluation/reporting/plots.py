"""The plots that every report has, each as the bytes of a PNG, and learning curves as numbers for the page's script."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from statistics import fmean
from typing import TYPE_CHECKING, Literal, NamedTuple

from subgraft.evaluation.reporting import drawing
from subgraft.evaluation.reporting.document import Figure
from subgraft.evaluation.reporting.numbers import duration
from subgraft.evaluation.reporting.records import CurvePoint, ReportData
from subgraft.evaluation.reporting.summary import MetricSummary, SystemSummary, mean_on_dev

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure as Drawn


# Lines of a picture are 2 pixels wide: more digits show nothing.
_DIGITS = 4


# A ramp of greys, so that no part of a cost is mistaken for a system.
_BILL_COLOURS = {"upstream": "#d3d8df", "generator": "#8c9fb2", "finetuning": "#3f5468"}
_CURVES_HEIGHT = 4.2  # inches
_MIN_SPAN = 1.0  # of an axis of scores, in points
MOST_SCORES = 9  # systems in the picture of scores, in addition to the baseline


class Panel(NamedTuple):
    """Curves of all systems.

    Attributes:
        title: What is drawn.
        value: It at a point of a curve.
        by: What it is drawn by: seconds include those that made new embeddings.
    """

    title: str
    value: Callable[[CurvePoint], float | None]
    by: Literal["steps", "characters", "seconds"] = "steps"

    @property
    def across(self) -> str:
        return {"steps": "finetuning step", "characters": "characters read", "seconds": "seconds of training"}[self.by]


class DevScore(NamedTuple):
    """The metric of dev translations during finetuning, and a function that reads it from a point of the curve."""

    name: str
    value: Callable[[CurvePoint], float | None]


def dev_score(data: ReportData) -> DevScore:
    """The main metric where labels are predicted; chrF where it chose the weights, else BLEU."""
    if any(point.score is not None for system in data.systems for point in system.curve):
        return DevScore(next(iter(data.systems[0].scores)), lambda point: point.score)
    if data.select == "chrf":
        return DevScore("chrF", lambda point: point.dev_chrf)
    return DevScore("BLEU", lambda point: point.dev_bleu)


def system_looks(data: ReportData) -> dict[str, drawing.Look]:
    """How each system is drawn. If there are many, those with the best dev scores stand out."""
    return drawing.looks(data.system_names, data.baseline, shown(data, drawing.MOST_COLOURED))


def shown(data: ReportData, most: int) -> list[str]:
    """The systems with the best dev scores, and the baseline in addition, in their order."""
    others = [name for name in data.system_names if name != data.baseline]
    best = sorted(others, key=lambda name: -mean_on_dev(data, name))[:most]
    return [name for name in data.system_names if name in best or name == data.baseline]


def curves_figure(data: ReportData) -> Figure:
    """Bits per character and a score on dev by finetuning step: a line for the mean, a band for the range of seeds.

    Without a score bits are drawn by characters and by seconds.
    """
    caption = "On dev; lines are means over seeds, bands their range. Every system sees the same batches."
    if len(data.system_names) - (data.baseline in data.system_names) > drawing.MOST_COLOURED:
        caption += f" In colour, here and elsewhere, are the {drawing.MOST_COLOURED} systems that are best on dev."
    return Figure("learning_curves", _plot_curves(data, dev_curves(data)), caption, learning_panels(data))


def learning_curves(data: ReportData) -> Drawn:
    """The same for a notebook."""
    with drawing.new_figure(10, _CURVES_HEIGHT) as figure:
        _draw_panels(figure, data, dev_curves(data))
        return figure


def plot_drift(data: ReportData) -> bytes:
    """The drift of feed-forward weights by finetuning step: a line for the mean, a band for the range of seeds."""
    return _plot_curves(data, [Panel("Drift of feed-forward weights", lambda point: point.drift)])


def dev_curves(data: ReportData) -> list[Panel]:
    """The measured curves."""
    score = dev_score(data)
    bits = Panel("Bits per character on dev (low is good)", lambda point: point.dev_bits_per_character)
    panels = [
        bits,
        Panel("Loss on dev, in nats per label (low is good)", lambda point: point.nats),
        Panel(f"{score.name} on dev", score.value),
    ]
    points = [point for system in data.systems for point in system.curve]
    measured = [panel for panel in panels if any(panel.value(point) is not None for point in points)]
    if measured != [bits]:
        return measured
    return [bits._replace(by="characters") if data.characters_per_step else bits, bits._replace(by="seconds")]


@drawing.for_narrow_screens
def _plot_curves(data: ReportData, panels: Sequence[Panel]) -> bytes:
    with drawing.new_figure(10, _CURVES_HEIGHT) as figure:
        _draw_panels(figure, data, panels)
        return drawing.png(figure)


def _draw_panels(figure: Drawn, data: ReportData, panels: Sequence[Panel]) -> None:
    for axes, panel in zip(drawing.side_by_side(figure, len(panels)), panels, strict=True):
        _draw_curves(axes, data, panel)
        axes.set(title=panel.title, xlabel=panel.across)
        axes.xaxis.set_major_formatter("{x:,.0f}")
        axes.locator_params(axis="x", nbins=5)


def scores_figure(
    data: ReportData, scores: Mapping[str, Mapping[str, MetricSummary]], lower_is_better: Collection[str] = ()
) -> Figure:
    """Mean test scores with 95 % intervals by metric and system, every seed as a dot, the baseline's mean as a line."""
    names = shown(data, MOST_SCORES)
    caption = "On the test set: dots are means over seeds, bars their 95 % intervals, small dots single seeds"
    caption += f", the dotted line {data.baseline}." if data.baseline else "."
    if len(names) < len(data.system_names):
        caption += f" Of {len(data.system_names)} systems these are best on dev; the tables below have all."
    titles = {metric: f"{metric} (low is good)" if metric in lower_is_better else metric for metric in scores}
    return Figure("scores", plot_scores(data, {titles[metric]: scores[metric] for metric in scores}, names), caption)


@drawing.for_narrow_screens
def plot_scores(data: ReportData, scores: Mapping[str, Mapping[str, MetricSummary]], names: Sequence[str]) -> bytes:
    """A panel for each metric, by title, with a row for each of the named systems."""
    looks = system_looks(data)
    with drawing.new_figure(10, 1.1 + 0.3 * len(names)) as figure:
        panels = drawing.side_by_side(figure, len(scores), sharey=True)
        for panel, (title, by_system) in zip(panels, scores.items(), strict=True):
            for row, name in enumerate(names):
                summary, colour = by_system[name], looks[name].colour
                panel.hlines(row, summary.interval.low, summary.interval.high, color=colour, linewidth=2.2)
                panel.plot(summary.mean, row, "o", color=colour, markersize=7)
                seeds = list(summary.by_seed.values())
                panel.plot(seeds, [row + 0.24] * len(seeds), "o", color=colour, markersize=3.2, alpha=0.75)
                if name == data.baseline:
                    panel.axvline(summary.mean, color=colour, linewidth=1, linestyle=":")
            panel.set(title=title)
            readable_scores(panel)
            panel.locator_params(axis="x", nbins=4)
            drawing.name_rows(panel, names)
        return drawing.png(figure)


def readable_scores(panel: Axes) -> None:
    """Plain tick labels, and an axis wide enough that rounding differences look small."""
    low, high = panel.get_xlim()
    if high - low < _MIN_SPAN:
        middle = (low + high) / 2
        panel.set_xlim(middle - _MIN_SPAN / 2, middle + _MIN_SPAN / 2)
    panel.ticklabel_format(axis="x", style="plain", useOffset=False)


@drawing.for_narrow_screens
def plot_costs(data: ReportData, systems: Sequence[SystemSummary]) -> bytes:
    """Sentences per second in generation, and the seconds billed for one model of each system."""
    looks, names = system_looks(data), [system.name for system in systems]
    with drawing.new_figure(10, 1.5 + 0.36 * len(systems)) as figure:
        speed, costs = drawing.side_by_side(figure, 2, sharey=True)
        rates = [system.sentences_per_second for system in systems]
        drawing.bars(speed, names, rates, [f"{rate:.1f}" for rate in rates], [looks[name].colour for name in names])
        speed.set(title="Sentences generated per second", xlim=(0, 1.12 * max(rates)))
        _draw_costs(costs, systems)
        drawing.name_rows(costs, names)
        return drawing.png(figure)


@drawing.for_narrow_screens
def plot_stage_seconds(seconds: Mapping[str, float]) -> bytes:
    """Total seconds per stage, in input order."""
    with drawing.new_figure(10, 1.1 + 0.34 * len(seconds)) as figure:
        panel = figure.subplots()
        drawing.bars(panel, list(seconds), list(seconds.values()), list(map(duration, seconds.values())), "#56789a")
        panel.set(title="Seconds per stage, all systems and seeds", xlim=(0, 1.15 * max(seconds.values()) or 1))
        return drawing.png(figure)


def _draw_costs(panel: Axes, systems: Sequence[SystemSummary]) -> None:
    offsets = [0.0] * len(systems)
    for part, colour in _BILL_COLOURS.items():
        widths = [float(getattr(system.cost, part)) for system in systems]
        panel.barh(range(len(systems)), widths, left=offsets, color=colour, height=0.62, label=part)
        offsets = [start + width for start, width in zip(offsets, widths, strict=True)]
    for row, total in enumerate(offsets):
        panel.annotate(
            duration(total), (total, row), (3, 0), textcoords="offset points", va="center", fontsize=drawing.SMALL
        )
    panel.set(title="Seconds billed for one model", xlim=(0, 1.2 * max(offsets) or 1))
    panel.legend(
        loc="upper center",
        bbox_to_anchor=(0.5, -0.35 / len(systems) - 0.03),
        ncols=drawing.max_columns(len(_BILL_COLOURS)),
    )


def _draw_curves(axes: Axes, data: ReportData, panel: Panel) -> None:
    """Systems that stand out lie above the others and have their names at their ends."""
    ends: list[drawing.Label] = []
    for name, look in system_looks(data).items():
        curve = curve_of(data, name, panel)
        if not curve:
            continue
        steps, means, lows, highs = zip(*curve, strict=True)
        depth = 2 + look.stands_out + (name != data.baseline)
        if look.stands_out:
            axes.fill_between(steps, lows, highs, color=look.colour, alpha=0.14, linewidth=0, zorder=depth)
            ends.append(drawing.Label(steps[-1], means[-1], name, look.colour, name == data.baseline))
        axes.plot(steps, means, zorder=depth + 2, markersize=4.5 if look.stands_out else 0, **look.line)
    axes.margins(x=0.025)
    drawing.label_ends(axes, ends, 0.75 * _CURVES_HEIGHT)


def curve_of(data: ReportData, name: str, panel: Panel) -> list[tuple[float, float, float, float]]:
    """Steps, characters or seconds, mean, least and greatest over seeds, where all seeds were evaluated."""
    results, step_size = data.results(name), (data.characters_per_step or 1) if panel.by == "characters" else 1
    by_step: dict[int, list[tuple[float, float]]] = {}
    for result in results:
        for point in result.curve:
            if (y := panel.value(point)) is not None:
                by_step.setdefault(point.step, []).append((result.cost.generator + point.seconds, y))
    complete = {step: zip(*points, strict=True) for step, points in by_step.items() if len(points) == len(results)}
    return [
        (fmean(seconds) if panel.by == "seconds" else step * step_size, fmean(ys), min(ys), max(ys))
        for step, (seconds, ys) in sorted(complete.items())
    ]


def learning_panels(data: ReportData) -> tuple[dict[str, object], ...]:
    """The data of the learning curves, as JSON. points: steps, characters or seconds, mean, least, greatest."""
    panels = ((panel, _series(data, panel)) for panel in dev_curves(data))
    return tuple(
        {"title": panel.title, "across": panel.across, "series": series}
        for panel, series in panels
        if any(curve["points"] for curve in series)
    )


def _series(data: ReportData, panel: Panel) -> list[dict[str, object]]:
    return [
        {
            "name": name,
            "colour": look.colour,
            "strong": look.stands_out,
            "points": [(round(x, 1), *(round(y, _DIGITS) for y in ys)) for x, *ys in curve_of(data, name, panel)],
        }
        for name, look in system_looks(data).items()
    ]
