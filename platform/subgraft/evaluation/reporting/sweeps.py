"""Sections of a report on quality against speed, and on the settings of a sweep; each is omitted if it has no data.

The sweeps are those of Liu et al. (ACL 2021): figure 3, granularity, and figure 4, the generator's training.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from subgraft.evaluation.metrics.significance import Interval
from subgraft.evaluation.reporting import drawing
from subgraft.evaluation.reporting.document import Block, Figure, Section
from subgraft.evaluation.reporting.plots import system_looks
from subgraft.evaluation.reporting.records import ReportData
from subgraft.evaluation.reporting.summary import SystemSummary, baseline_of, summarise

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def quality_and_speed(data: ReportData) -> list[Section]:
    """BLEU against speed."""
    systems = summarise(data)
    if len(systems) < 2:
        return []
    caption = (
        "Means over seeds. Bold systems are beaten by no other in both speed and BLEU; the line joins them. There are "
        "no intervals here: see those of the table."
    )
    return [Section("Quality and speed", (Figure("quality_and_speed", plot_front(data, systems), caption),))]


def sweeps(data: ReportData) -> list[Section]:
    """The effect of the vocabulary's size and the generator's training, if systems differ in these."""
    systems = summarise(data)
    baseline, blocks = baseline_of(systems, data), list[Block]()
    if series := size_series(systems):
        caption = (
            "Systems that differ in the size of their vocabulary alone, as in figure 3 of Liu et al. (2021). Means "
            "over seeds; bars are 95 % intervals, the dashed line is the baseline. ECE: over tokens of each vocabulary."
        )
        blocks.append(Figure("granularity", plot_granularity(series, baseline), caption))
    if series := step_series(systems):
        caption = (
            "Systems that differ in the steps of their generator's training alone, as in figure 4 of Liu et al. "
            "(2021). At step 0 a generator is the plain mean of similar tokens, which is `avg`. Bars: 95 % intervals."
        )
        plot = plot_steps(series, baseline, "steps of the generator's training")
        blocks.append(Figure("generator_steps", plot, caption))
    if series := pretraining_series(systems):
        caption = (
            "Systems that differ in the number of updates of pretraining before their finetuning alone, all of one "
            "training. Means over seeds; bars are 95 % intervals, the dashed line is the baseline."
        )
        blocks.append(Figure("pretraining_steps", plot_steps(series, baseline, "updates of pretraining"), caption))
    return [Section("Sweeps", tuple(blocks))] if blocks else []


_HEIGHT = 3.6  # inches
_OTHER_LABEL_COLOUR = "#8a919c"


@dataclass(frozen=True)
class Series:
    """Systems that differ in one setting alone, by its rising value."""

    name: str
    points: tuple[tuple[int, SystemSummary], ...]


def size_series(systems: Sequence[SystemSummary]) -> list[Series]:
    """Systems that differ in their vocabulary's size alone; none where no two do."""
    return _series(systems, lambda system: system.vocabulary_size, lambda system: system.generator_steps)


def step_series(systems: Sequence[SystemSummary]) -> list[Series]:
    """Systems that differ only in how long their generator was trained; each series starts with its `avg` at step 0."""
    with_steps = [system for system in systems if system.generator_steps]
    trained = _series(with_steps, lambda system: system.generator_steps, lambda system: system.vocabulary_size)
    initial = {_shared_settings(system): system for system in systems if system.generator_steps == 0}
    return [
        Series(series.name, ((0, first), *series.points))
        if (first := initial.get(_shared_settings(series.points[0][1]))) is not None
        else series
        for series in trained
    ]


def pretraining_series(systems: Sequence[SystemSummary]) -> list[Series]:
    """Systems that differ only in the updates of pretraining that their weights are from."""
    return _series(
        systems, lambda system: system.pretraining_step, lambda system: (system.vocabulary_size, system.generator_steps)
    )


def _shared_settings(system: SystemSummary) -> Hashable:
    """The settings that a system with a generator shares with the `avg` that its generator starts from."""
    return system.vocabulary_size, system.variant


def _series(
    systems: Sequence[SystemSummary],
    swept: Callable[[SystemSummary], int | None],
    fixed: Callable[[SystemSummary], Hashable],
) -> list[Series]:
    series: dict[tuple[str, Hashable], dict[int, SystemSummary]] = {}
    for system in systems:
        value = swept(system)
        if value is not None and system.family:
            series.setdefault((system.family, fixed(system)), {}).setdefault(value, system)
    return [
        Series(family, tuple(sorted(by_value.items()))) for (family, _), by_value in series.items() if len(by_value) > 1
    ]


@drawing.for_narrow_screens
def plot_granularity(lines: Sequence[Series], baseline: SystemSummary | None) -> bytes:
    """Speed, inference ECE and BLEU against the vocabulary's size; the baseline as a dashed line."""
    panels: list[tuple[str, Callable[[SystemSummary], float | None], bool]] = [
        ("Sentences per second", lambda system: system.sentences_per_second, False),
        ("Inference ECE (low is good)", lambda system: system.inference_ece, False),
        ("BLEU", lambda system: system.metrics["BLEU"].mean, True),
    ]
    with drawing.new_figure(10, _HEIGHT) as figure:
        axes = drawing.side_by_side(figure, len(panels))
        for panel, (title, value, has_interval) in zip(axes, panels, strict=True):
            _draw_series(panel, lines, value, has_interval, baseline)
            panel.set(title=title, xlabel="tokens of the vocabulary")
            panel.set_xscale("log", base=2)
            sizes = sorted({size for series in lines for size, _ in series.points})
            panel.set_xticks(sizes, [f"{size:,}" for size in sizes], rotation=30)
            panel.minorticks_off()
        return drawing.png(figure)


@drawing.for_narrow_screens
def plot_steps(lines: Sequence[Series], baseline: SystemSummary | None, steps: str) -> bytes:
    """BLEU, and the bits per character before finetuning, against the steps of an earlier training (`steps`)."""
    with drawing.new_figure(10, _HEIGHT) as figure:
        bleu, bits = drawing.side_by_side(figure, 2)
        _draw_series(bleu, lines, lambda system: system.metrics["BLEU"].mean, True, baseline)
        _draw_series(bits, lines, lambda system: system.bits.start, False, None)
        bleu.set(title="BLEU after finetuning", xlabel=steps)
        bits.set(title="Bits per character on dev, before (low is good)", xlabel=steps)
        return drawing.png(figure)


def _draw_series(
    panel: Axes,
    lines: Sequence[Series],
    value: Callable[[SystemSummary], float | None],
    has_interval: bool,
    baseline: SystemSummary | None,
) -> None:
    ends: list[drawing.Label] = []
    for name, look in drawing.looks([series.name for series in lines], None, [s.name for s in lines][:6]).items():
        for series in (series for series in lines if series.name == name):
            points = [(x, y, system) for x, system in series.points if (y := value(system)) is not None]
            if not points:
                continue
            xs, ys = [x for x, _, _ in points], [y for _, y, _ in points]
            panel.plot(xs, ys, markersize=6, **look.line)
            for x, _, system in points if has_interval else ():
                interval: Interval = system.metrics["BLEU"].interval
                panel.vlines(x, interval.low, interval.high, color=look.colour, linewidth=1.2, alpha=0.6)
            ends.append(drawing.Label(xs[-1], ys[-1], name, look.colour))
    if baseline is not None and (level := value(baseline)) is not None:
        panel.axhline(level, color=drawing.BASELINE_COLOUR, linewidth=1.2, linestyle="--", zorder=1)
        ends.append(drawing.Label(panel.get_xlim()[1], level, baseline.name, drawing.BASELINE_COLOUR, True))
    panel.margins(x=0.06)
    drawing.label_ends(panel, ends, 0.72 * _HEIGHT)


@drawing.for_narrow_screens
def plot_front(data: ReportData, systems: Sequence[SystemSummary]) -> bytes:
    """BLEU against speed; a line through the systems that no other system beats in both."""
    looks = system_looks(data)
    front_systems = front(systems)
    with drawing.new_figure(10, 5.2) as figure:
        panel = figure.subplots()
        edge = [(system.sentences_per_second, system.metrics["BLEU"].mean) for system in front_systems]
        panel.step(*zip(*edge, strict=True), where="pre", color="#c8cdd5", linewidth=1.6, zorder=1)
        labels = []
        for system in systems:
            look, (x, y) = looks[system.name], (system.sentences_per_second, system.metrics["BLEU"].mean)
            marker_style = {"color": look.colour, "marker": look.marker, "markersize": 8 if look.stands_out else 6}
            panel.plot(x, y, zorder=3 + look.stands_out, markeredgecolor="white", **marker_style)  # type: ignore[arg-type]
            labels.append(
                drawing.Label(
                    x, y, system.name, look.colour if look.stands_out else _OTHER_LABEL_COLOUR, system in front_systems
                )
            )
        panel.set(xlabel="sentences generated per second", ylabel="BLEU on the test set")
        panel.margins(x=0.08, y=0.12)
        drawing.label_points(panel, labels)
        return drawing.png(figure)


def front(systems: Sequence[SystemSummary]) -> list[SystemSummary]:
    """The systems that no other system beats in speed and BLEU both, by rising speed."""
    best: list[SystemSummary] = []
    for system in sorted(systems, key=lambda system: (-system.sentences_per_second, -system.metrics["BLEU"].mean)):
        if not best or system.metrics["BLEU"].mean > best[-1].metrics["BLEU"].mean:
            best.append(system)
    return best[::-1]
