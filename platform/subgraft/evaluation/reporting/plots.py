"""The plots that every report has, each as the bytes of a PNG, and learning curves as numbers for the page's script."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, NamedTuple

from subgraft.evaluation.metrics.scores import LOWER_IS_BETTER, METRICS
from subgraft.evaluation.reporting.drawing import (
    MOST_COLOURED,
    SMALL,
    Label,
    Look,
    across,
    drawing,
    for_narrow_screens,
    label_ends,
    looks,
    png,
    side_by_side,
)
from subgraft.evaluation.reporting.numbers import duration
from subgraft.evaluation.reporting.records import CurvePoint, ReportData, SystemResult
from subgraft.evaluation.reporting.summary import SystemSummary

if TYPE_CHECKING:
    from matplotlib.axes import Axes


# Lines of a picture are 2 pixels wide: more digits show nothing.
_DIGITS = 4


# A ramp, so that no part of a bill is taken for a system.
_BILL_COLOURS = {"upstream": "#d3d8df", "generator": "#8c9fb2", "finetuning": "#3f5468"}
_CURVES_HEIGHT = 4.2  # inches
_LEAST_SPAN = 1.0  # of an axis of scores, in points


class DevScore(NamedTuple):
    """What translations of dev are scored by during finetuning, and where a curve's point has it."""

    name: str
    of: Callable[[CurvePoint], float | None]


def dev_score(data: ReportData) -> DevScore:
    """chrF where it chose the weights, else BLEU."""
    if data.select == "chrf":
        return DevScore("chrF", lambda point: point.dev_chrf)
    return DevScore("BLEU", lambda point: point.dev_bleu)


def system_looks(data: ReportData) -> dict[str, Look]:
    """How each system is drawn. With many systems, the best on dev stand out; they are judged on test."""
    ranked = sorted(data.system_names, key=lambda name: -_best_on_dev(data, name))
    return looks(data.system_names, data.baseline, [name for name in ranked if name != data.baseline][:MOST_COLOURED])


def _best_on_dev(data: ReportData, name: str) -> float:
    """The mean over seeds of the best dev score; where there is none, minus the least bits per character."""
    best, score = [], dev_score(data)
    for result in data.results(name):
        scores = [value for point in result.curve if (value := score.of(point)) is not None]
        bits = [-point.dev_bits_per_character for point in result.curve]
        best.append(max(scores or bits, default=0.0))
    return sum(best) / len(best)


def plot_learning_curves(data: ReportData) -> bytes:
    """Bits per character and a score on dev by finetuning step: a line for the mean, a band for the range of seeds."""
    score = dev_score(data)
    is_scored = any(score.of(point) is not None for system in data.systems for point in system.curve)
    with drawing(10, _CURVES_HEIGHT) as figure:
        panels = figure.subplots(1, 2 if is_scored else 1, squeeze=False)[0]
        _draw_curves(panels[0], data, lambda point: point.dev_bits_per_character)
        panels[0].set(title="Bits per character on dev (low is good)", xlabel="finetuning step")
        if is_scored:
            _draw_curves(panels[1], data, score.of)
            panels[1].set(title=f"{score.name} on dev", xlabel="finetuning step")
        return png(figure)


def plot_drift(data: ReportData) -> bytes:
    """The drift of feed-forward weights by finetuning step: a line for the mean, a band for the range of seeds."""
    with drawing(10, _CURVES_HEIGHT) as figure:
        panel = figure.subplots()
        _draw_curves(panel, data, lambda point: point.drift)
        panel.set(title="Drift of feed-forward weights", xlabel="finetuning step")
        return png(figure)


@for_narrow_screens
def plot_scores(data: ReportData, systems: Sequence[SystemSummary]) -> bytes:
    """Mean test scores with 95 % intervals, every seed as a dot, the baseline's mean as a line."""
    shown = system_looks(data)
    with drawing(10, 1.3 + 0.36 * len(systems)) as figure:
        panels = side_by_side(figure, len(METRICS), sharey=True)
        for panel, metric in zip(panels, METRICS, strict=True):
            for place, system in enumerate(systems):
                summary, colour = system.metrics[metric], shown[system.name].colour
                panel.hlines(place, summary.interval.low, summary.interval.high, color=colour, linewidth=2.2)
                panel.plot(summary.mean, place, "o", color=colour, markersize=7)
                seeds = list(summary.by_seed.values())
                panel.plot(seeds, [place + 0.24] * len(seeds), "o", color=colour, markersize=3.2, alpha=0.75)
                if system.name == data.baseline:
                    panel.axvline(summary.mean, color=colour, linewidth=1, linestyle=":")
            better = " (low is good)" if metric in LOWER_IS_BETTER else ""
            panel.set(title=f"{metric}{better}")
            readable_scores(panel)
            panel.locator_params(axis="x", nbins=4)
            name_systems(panel, systems)
        return png(figure)


def readable_scores(panel: Axes) -> None:
    """Plain tick labels, and an axis wide enough that rounding differences look small."""
    low, high = panel.get_xlim()
    if high - low < _LEAST_SPAN:
        middle = (low + high) / 2
        panel.set_xlim(middle - _LEAST_SPAN / 2, middle + _LEAST_SPAN / 2)
    panel.ticklabel_format(axis="x", style="plain", useOffset=False)


def name_systems(panel: Axes, systems: Sequence[SystemSummary]) -> None:
    """Systems from top to bottom along the panel's left side."""
    panel.set_yticks(range(len(systems)), [system.name for system in systems])
    panel.set_ylim(len(systems) - 0.5, -0.5)
    panel.tick_params(axis="y", length=0)
    panel.grid(axis="y", visible=False)


@for_narrow_screens
def plot_costs(data: ReportData, systems: Sequence[SystemSummary]) -> bytes:
    """Sentences per second in generation, and the seconds billed for one model of each system."""
    shown = system_looks(data)
    with drawing(10, 1.5 + 0.36 * len(systems)) as figure:
        speed, bills = side_by_side(figure, 2, sharey=True)
        rates = [system.sentences_per_second for system in systems]
        bars = speed.barh(
            range(len(systems)), rates, color=[shown[system.name].colour for system in systems], height=0.62
        )
        speed.bar_label(bars, labels=[f"{rate:.1f}" for rate in rates], padding=3, fontsize=SMALL)
        speed.set(title="Sentences generated per second", xlim=(0, 1.12 * max(rates)))
        _draw_bills(bills, systems)
        for panel in (speed, bills):
            name_systems(panel, systems)
        return png(figure)


@for_narrow_screens
def plot_stage_seconds(seconds: Mapping[str, float]) -> bytes:
    """Total seconds per stage, in input order."""
    with drawing(10, 1.1 + 0.34 * len(seconds)) as figure:
        panel = figure.subplots()
        bars = panel.barh(list(seconds), list(seconds.values()), color="#56789a", height=0.62)
        panel.bar_label(bars, labels=[duration(value) for value in seconds.values()], padding=3, fontsize=SMALL)
        panel.set(title="Seconds per stage, all systems and seeds", ylim=(len(seconds) - 0.5, -0.5))
        panel.set_xlim(0, 1.15 * max(seconds.values()) or 1)
        panel.grid(axis="y", visible=False)
        panel.tick_params(axis="y", length=0)
        return png(figure)


def _draw_bills(panel: Axes, systems: Sequence[SystemSummary]) -> None:
    left = [0.0] * len(systems)
    for part, colour in _BILL_COLOURS.items():
        widths = [float(getattr(system.bill, part)) for system in systems]
        panel.barh(range(len(systems)), widths, left=left, color=colour, height=0.62, label=part)
        left = [start + width for start, width in zip(left, widths, strict=True)]
    for place, total in enumerate(left):
        panel.annotate(duration(total), (total, place), (3, 0), textcoords="offset points", va="center", fontsize=SMALL)
    panel.set(title="Seconds billed for one model", xlim=(0, 1.2 * max(left) or 1))
    panel.legend(
        loc="upper center", bbox_to_anchor=(0.5, -0.35 / len(systems) - 0.03), ncols=across(len(_BILL_COLOURS))
    )


def _draw_curves(panel: Axes, data: ReportData, value: Callable[[CurvePoint], float | None]) -> None:
    """Systems that stand out lie above the others and have their names at their ends."""
    ends: list[Label] = []
    for name, look in system_looks(data).items():
        curve = curve_of(data.results(name), value)
        if not curve:
            continue
        steps, means, lows, highs = zip(*curve, strict=True)
        depth = 2 + look.stands_out + (name != data.baseline)
        if look.stands_out:
            panel.fill_between(steps, lows, highs, color=look.colour, alpha=0.14, linewidth=0, zorder=depth)
            ends.append(Label(steps[-1], means[-1], name, look.colour, name == data.baseline))
        width, size = (1.9, 4.5) if look.stands_out else (1.0, 0)
        style = {"color": look.colour, "marker": look.marker, "markersize": size, "linewidth": width}
        panel.plot(steps, means, zorder=depth + 2, **style)  # type: ignore[arg-type]
    panel.margins(x=0.025)
    panel.set_ylim(panel.get_ylim())
    label_ends(panel, ends, 0.75 * _CURVES_HEIGHT)


def curve_of(
    results: Sequence[SystemResult], value: Callable[[CurvePoint], float | None]
) -> list[tuple[int, float, float, float]]:
    """Step, mean, least and greatest over seeds, at every step that all seeds were evaluated at."""
    by_step: dict[int, list[float]] = {}
    for result in results:
        for point in result.curve:
            if (y := value(point)) is not None:
                by_step.setdefault(point.step, []).append(y)
    return [
        (step, sum(ys) / len(ys), min(ys), max(ys)) for step, ys in sorted(by_step.items()) if len(ys) == len(results)
    ]


@dataclass(frozen=True)
class Series:
    """A system's line. points: step, mean over seeds, least, greatest.  strong: whether it stands out."""

    name: str
    colour: str
    strong: bool
    points: tuple[tuple[float, ...], ...]


@dataclass(frozen=True)
class Panel:
    """Lines over one pair of axes."""

    title: str
    across: str
    series: tuple[Series, ...]


def learning_panels(data: ReportData) -> tuple[dict[str, object], ...]:
    """What `plots.plot_learning_curves` draws, as JSON holds it."""
    score = dev_score(data)
    wanted: list[tuple[str, Callable[[CurvePoint], float | None]]] = [
        ("Bits per character on dev (low is good)", lambda point: point.dev_bits_per_character),
        (f"{score.name} on dev", score.of),
    ]
    panels = [Panel(title, "finetuning step", tuple(_series(data, value))) for title, value in wanted]
    return tuple(asdict(panel) for panel in panels if any(series.points for series in panel.series))


def _series(data: ReportData, value: Callable[[CurvePoint], float | None]) -> list[Series]:
    return [
        Series(name, look.colour, look.stands_out, _points(data.results(name), value))
        for name, look in system_looks(data).items()
    ]


def _points(
    results: Sequence[SystemResult], value: Callable[[CurvePoint], float | None]
) -> tuple[tuple[float, ...], ...]:
    return tuple((step, *(round(y, _DIGITS) for y in ys)) for step, *ys in curve_of(results, value))
