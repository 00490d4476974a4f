"""The plots of a search: the best trials, their values, learning curves, and importance of parameters."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from subgraft.evaluation.reporting.drawing import (
    SMALL,
    Label,
    drawing,
    for_narrow_screens,
    label_points,
    png,
    side_by_side,
)
from subgraft.experiments.search.trial_results import SearchData, TrialResult, Value, best

if TYPE_CHECKING:
    from matplotlib.axes import Axes

TITLES: Mapping[str, str] = {
    "dev_bleu": "BLEU on dev",
    "dev_bits_per_character": "bits per character of dev",
    "sentences_per_second": "sentences generated per second",
}
_COLOUR, _BEST, _BEHIND = "#56789a", "#D55E00", "#c3c9d2"


def plot_front(data: SearchData) -> bytes:
    """Finished trials by their objectives, and a line through those that no other beats; one objective: by trial."""
    chosen = best(data.trials, data.objectives)
    with drawing(10, 4.6) as figure:
        panel = figure.subplots()
        labels = []
        for trial in finished(data):
            x, y = _place(data, trial)
            colour = _BEST if trial in chosen else _COLOUR
            panel.plot(
                x, y, "o", color=colour, markersize=8 if trial in chosen else 6, markeredgecolor="white", zorder=3
            )
            labels.append(Label(x, y, str(trial.number), colour, trial in chosen))
        if len(data.objectives) > 1:
            edge = sorted(_place(data, trial) for trial in chosen)
            panel.step(*zip(*edge, strict=True), where="pre", color="#c8cdd5", linewidth=1.6, zorder=1)
        panel.set(xlabel=TITLES[data.objectives[1]] if len(data.objectives) > 1 else "trial")
        panel.set(ylabel=TITLES[data.objectives[0]])
        panel.margins(x=0.08, y=0.12)
        label_points(panel, labels)
        return png(figure)


def _place(data: SearchData, trial: TrialResult) -> tuple[float, float]:
    x = trial.objectives[data.objectives[1]] if len(data.objectives) > 1 else float(trial.number)
    return x, trial.objectives[data.objectives[0]]


def plot_parallel(data: SearchData) -> bytes:
    """A line per finished trial through its values and objectives; the best ones in colour."""
    chosen = best(data.trials, data.objectives)
    axes = [*data.parameters, *data.objectives]
    with drawing(10, 3.8) as figure:
        panel = figure.subplots()
        heights = {name: _heights([_at(trial, name) for trial in finished(data)]) for name in axes}
        for trial in sorted(finished(data), key=lambda trial: trial in chosen):
            line = [heights[name].get(_at(trial, name), math.nan) for name in axes]
            strong = trial in chosen
            style = {"color": _BEST if strong else _BEHIND, "linewidth": 2.0 if strong else 1.0, "marker": "o"}
            panel.plot(range(len(axes)), line, markersize=4, zorder=2 + strong, **style)  # type: ignore[arg-type]
        for place, name in enumerate(axes):
            panel.axvline(place, color="#9aa1ac", linewidth=0.8, zorder=1)
            _write_scale(panel, place, heights[name])
        panel.set_xticks(range(len(axes)), [TITLES.get(name, name) for name in axes])
        panel.set(yticks=[], ylim=(-0.08, 1.08), xlim=(-0.2, len(axes) - 0.55))
        panel.spines["left"].set_visible(False)
        panel.grid(visible=False)
        return png(figure)


def _at(trial: TrialResult, name: str) -> Value | None:
    return trial.objectives[name] if name in trial.objectives else trial.values.get(name)


def _heights(values: Sequence[Value | None]) -> dict[Value | None, float]:
    """Where values stand on an axis from 0 to 1: numbers by size, words one above another; nothing, for none."""
    present = {value for value in values if value is not None}
    numbers = sorted(value for value in present if not isinstance(value, str))
    if numbers:
        low, span = numbers[0], (numbers[-1] - numbers[0]) or 1
        return {value: (value - low) / span if len(numbers) > 1 else 0.5 for value in numbers}
    words = sorted(str(value) for value in present)
    return {word: (place + 0.5) / len(words) for place, word in enumerate(words)}


def _write_scale(panel: Axes, place: int, heights: Mapping[Value | None, float]) -> None:
    """A few values along an axis: all of few, else the ends."""
    shown = sorted(heights.items(), key=lambda item: item[1])
    for value, height in shown if len(shown) <= 5 else (shown[0], shown[-1]):
        written = value if isinstance(value, str) else f"{value:.4g}"
        panel.annotate(
            str(written), (place, height), (5, 0), textcoords="offset points", va="center", fontsize=SMALL,
            bbox={"facecolor": "white", "edgecolor": "none", "alpha": 0.75, "pad": 1},
        )  # fmt: skip


def plot_curves(data: SearchData) -> bytes:
    """The best dev BLEU of each trial so far, by evaluation; a cross where ASHA stopped it."""
    chosen = best(data.trials, data.objectives)
    with drawing(10, 3.4) as figure:
        panel = figure.subplots()
        for trial in watched(data):
            xs, ys = zip(*trial.curve, strict=True)
            colour: Any = _BEST if trial in chosen else _COLOUR if trial.state == "finished" else _BEHIND
            panel.plot(xs, ys, color=colour, marker="o", markersize=3.5, linewidth=1.5)
            if trial.state == "stopped":
                panel.plot(xs[-1], ys[-1], "x", color="#4b5058", markersize=8)
        panel.set(xlabel="evaluations", ylabel="best BLEU on dev so far")
        panel.locator_params(axis="x", integer=True)
        return png(figure)


@for_narrow_screens
def plot_importance(data: SearchData) -> bytes:
    """How much each parameter decides whether a trial is among the best, by objective."""
    with drawing(10, 1.2 + 0.34 * len(data.parameters)) as figure:
        panels = side_by_side(figure, len(data.importance))
        for panel, (objective, shares) in zip(panels, data.importance.items(), strict=True):
            names = sorted(shares, key=shares.__getitem__)
            bars = panel.barh(names, [shares[name] for name in names], color=_COLOUR, height=0.62)
            panel.bar_label(bars, labels=[f"{shares[name]:.2f}" for name in names], padding=3, fontsize=SMALL)
            panel.set(title=f"For {TITLES[objective]}", xlim=(0, 1.15))
            panel.grid(axis="y", visible=False)
            panel.tick_params(axis="y", length=0)
        return png(figure)


def finished(data: SearchData) -> list[TrialResult]:
    """The trials that were measured."""
    return [trial for trial in data.trials if trial.state == "finished"]


def watched(data: SearchData) -> list[TrialResult]:
    """The trials that were seen while they were finetuned."""
    return [trial for trial in data.trials if trial.curve]
