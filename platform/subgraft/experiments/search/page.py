"""The page of a search with its plots, rewritten atomically whenever a trial starts or ends."""

from __future__ import annotations

import math
import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from subgraft.evaluation.reporting import document, drawing
from subgraft.evaluation.reporting.findings import generated_notice
from subgraft.evaluation.reporting.numbers import MISSING, count, duration, fixed
from subgraft.evaluation.reporting.records import Command
from subgraft.evaluation.reporting.table import Span, Table, Text, table, text
from subgraft.experiments.pipeline import Pipeline
from subgraft.experiments.search.space import as_yaml, planned_trials, search_settings, template, trial_system
from subgraft.experiments.search.study import importances
from subgraft.experiments.search.trial_results import SearchData, TrialResult, Value, best, ended, ordered

if TYPE_CHECKING:
    from matplotlib.axes import Axes


class Page:
    """The page's file and its search; `dashboard` is the address of Ray's while a search runs."""

    def __init__(self, pipeline: Pipeline, folder: Path, tracking: str) -> None:
        self.path = folder / "search.html"
        self.dashboard = ""
        self._pipeline = pipeline
        self._tracking = tracking

    def write(self, trials: Iterable[TrialResult]) -> None:
        temporary = self.path.with_name(f".{self.path.name}.{os.getpid()}")
        temporary.write_text(render(self.data(trials)), encoding="utf-8")
        temporary.replace(self.path)

    def systems(self, trials: Iterable[TrialResult]) -> str:
        """The best trials as systems of a configuration; a single best one takes the searched system's name."""
        system, objectives = template(self._pipeline), search_settings(self._pipeline).objectives
        systems = [trial_system(system, trial) for trial in best(trials, objectives)]
        renamed = [systems[0].model_copy(update={"name": system.name})] if len(systems) == 1 else systems
        return "".join(f"  - {as_yaml(each)}\n" for each in renamed)

    def data(self, trials: Iterable[TrialResult]) -> SearchData:
        experiment, search = self._pipeline.experiment, search_settings(self._pipeline)
        dashboard = [Command("Ray's dashboard", f"http://{self.dashboard}")] if self.dashboard else []
        by_number = tuple(sorted(trials, key=lambda trial: trial.number))
        systems = self.systems(by_number)
        return SearchData(
            name=experiment.name,
            languages=(experiment.languages.source, experiment.languages.target),
            parameters=tuple(search.space.varied),
            objectives=search.objectives,
            planned=planned_trials(self._pipeline),
            trials=by_number,
            importance=importances(search, by_number),
            systems=f"systems:\n{systems}" if systems else "",
            commands=(Command("MLflow's page: every trial with its stages and curves", self._tracking), *dashboard),
            generated=any(
                part.kind.name == "generated" for corpus in experiment.corpora.values() for part in corpus.parts
            ),
        )


REFRESH_SECONDS = 15
ONE_SEED = (
    "Every trial was trained once, and its dev score is that of its best checkpoint: small differences are chance. "
    "The test set was not used. For a reliable comparison, run the best systems over several seeds."
)


def render(data: SearchData) -> str:
    """One self-contained HTML page, which reloads itself while the search runs."""
    return document.render_html(build_document(data))


def build_document(data: SearchData) -> document.Document:
    """The whole page, in the order in which it is read."""
    sections = [document.Section("In short", _in_short(data))]
    if finished(data):
        sections.append(document.Section("The best", tuple(_front(data))))
        sections.append(document.Section("Values and what came of them", (_parallel(data),)))
    if data.importance:
        sections.append(document.Section("What mattered", (_importance(data),)))
    if watched(data):
        sections.append(document.Section("How trials went", (_curves(data),)))
    sections.append(document.Section("All trials", (_trials(data),)))
    sections.append(document.Section("Look further", (document.Commands(data.commands),)))
    done = len(ended(data.trials))
    subtitle = f"{data.languages[0]} → {data.languages[1]} · {count(done)} of {count(data.planned)} trials done"
    return document.Document(
        f"{data.name}: a search", subtitle, tuple(sections), None if data.over else REFRESH_SECONDS
    )


def _in_short(data: SearchData) -> tuple[document.Block, ...]:
    states = [trial.state for trial in data.trials]
    counts = [f"{states.count(state)} {state}" for state in dict.fromkeys(states)]
    items = [text(", ".join(counts) if counts else "Nothing has started yet.")]
    shared = sum(trial.shared for trial in data.trials)
    made = sum(len(trial.made) for trial in data.trials)
    if made:
        items.append(
            text(f"Trials made {count(made)} steps and reused {count(shared)} of other trials or earlier runs.")
        )
    items.append(text(ONE_SEED))
    return (*generated_notice(data.generated), document.Bullets(tuple(items)))


def _front(data: SearchData) -> list[document.Block]:
    multi_objective = len(data.objectives) > 1
    caption = "Finished trials by number. " + (
        "No other trial beats the orange ones in every objective; the line joins them."
        if multi_objective
        else "The best is orange."
    )
    rows = [_row(data, trial) for trial in best(data.trials, data.objectives)]
    return [
        document.Figure("front", plot_front(data), caption),
        table(_headings(data), rows, "The best trials", left=()),
        document.Paragraph(text("As systems of a configuration:")),
        document.Paragraph(text(Span(data.systems, "code"))),
    ]


def _parallel(data: SearchData) -> document.Figure:
    caption = (
        "A line per finished trial; orange ones are the best. A trial has no point where it was not asked for a value."
    )
    return document.Figure("parallel", plot_parallel(data), caption)


def _importance(data: SearchData) -> document.Figure:
    caption = (
        "How much a parameter decides whether a trial is in the best quarter (conditional PED-ANOVA; shares of one). "
        "With few trials this is rough."
    )
    return document.Figure("importance", plot_importance(data), caption)


def _curves(data: SearchData) -> document.Figure:
    caption = (
        "Best dev BLEU so far at each evaluation but the last; a cross where ASHA stopped the trial, which goes by "
        "this alone. Trials whose finetuning was there already are not drawn."
    )
    return document.Figure("curves", plot_curves(data), caption)


def _trials(data: SearchData) -> Table:
    columns = ["state", "seconds", "steps made", "taken over", "note"]
    rows = list[list[str | Text]]()
    for trial in ordered(data.trials, data.objectives):
        seconds = duration(trial.seconds) if trial.seconds else MISSING
        course = (trial.state, seconds, str(len(trial.made)), str(trial.shared), trial.said.partition("\n")[0])
        rows.append([*_row(data, trial), *course])
    note = (
        "The best come first. Steps made: those that no trial before it had made, and no run. Note: the first line of "
        "why it was refused."
    )
    return table([*_headings(data), *columns], rows, "", note, left=(-1,))


def _headings(data: SearchData) -> list[str]:
    return ["trial", *data.parameters, *(TITLES[name] for name in data.objectives)]


def _row(data: SearchData, trial: TrialResult) -> list[str | Text]:
    values = [trial.values.get(name) for name in data.parameters]
    cells = [
        MISSING if value is None else f"{value:.4g}" if isinstance(value, float) else str(value) for value in values
    ]
    return [str(trial.number), *cells, *(fixed(trial.objectives.get(name)) for name in data.objectives)]


TITLES: Mapping[str, str] = {
    "dev_bleu": "BLEU on dev",
    "dev_bits_per_character": "bits per character of dev",
    "dev_score": "main score on dev",
    "sentences_per_second": "sentences generated per second",
}
_COLOUR, _BEST, _OTHER = "#56789a", "#D55E00", "#c3c9d2"


@drawing.for_narrow_screens
def plot_front(data: SearchData) -> bytes:
    """Finished trials by their objectives, and a line through those that no other beats; one objective: by trial."""
    best_trials = best(data.trials, data.objectives)
    with drawing.new_figure(10, 4.6) as figure:
        panel = figure.subplots()
        labels = []
        for trial in finished(data):
            x, y = _coordinates(data, trial)
            colour = _BEST if trial in best_trials else _COLOUR
            panel.plot(
                x, y, "o", color=colour, markersize=8 if trial in best_trials else 6, markeredgecolor="white", zorder=3
            )
            labels.append(drawing.Label(x, y, str(trial.number), colour, trial in best_trials))
        if len(data.objectives) > 1:
            front = sorted(_coordinates(data, trial) for trial in best_trials)
            panel.step(*zip(*front, strict=True), where="pre", color="#c8cdd5", linewidth=1.6, zorder=1)
        panel.set(xlabel=TITLES[data.objectives[1]] if len(data.objectives) > 1 else "trial")
        panel.set(ylabel=TITLES[data.objectives[0]])
        panel.margins(x=0.08, y=0.12)
        drawing.label_points(panel, labels)
        return drawing.png(figure)


def _coordinates(data: SearchData, trial: TrialResult) -> tuple[float, float]:
    x = trial.objectives[data.objectives[1]] if len(data.objectives) > 1 else float(trial.number)
    return x, trial.objectives[data.objectives[0]]


@drawing.for_narrow_screens
def plot_parallel(data: SearchData) -> bytes:
    """A line per finished trial through its values and objectives; the best ones in colour."""
    best_trials = best(data.trials, data.objectives)
    axes = [*data.parameters, *data.objectives]
    with drawing.new_figure(10, 4.4) as figure:
        panel = figure.subplots()
        heights = {name: _heights([_value(trial, name) for trial in finished(data)]) for name in axes}
        for trial in sorted(finished(data), key=lambda trial: trial in best_trials):
            line = [heights[name].get(_value(trial, name), math.nan) for name in axes]
            is_best = trial in best_trials
            style = {"color": _BEST if is_best else _OTHER, "linewidth": 2.0 if is_best else 1.0, "marker": "o"}
            panel.plot(range(len(axes)), line, markersize=4, zorder=2 + is_best, **style)  # type: ignore[arg-type]
        for position, name in enumerate(axes):
            panel.axvline(position, color="#9aa1ac", linewidth=0.8, zorder=1)
            _write_scale(panel, position, heights[name])
        names = [TITLES.get(name, name) for name in axes]
        panel.set_xticks(range(len(axes)), names, rotation=30, ha="right", rotation_mode="anchor")
        panel.set(yticks=[], ylim=(-0.08, 1.08), xlim=(-0.2, len(axes) - 0.55))
        panel.spines["left"].set_visible(False)
        panel.grid(visible=False)
        return drawing.png(figure)


def _value(trial: TrialResult, name: str) -> Value | None:
    return trial.objectives[name] if name in trial.objectives else trial.values.get(name)


def _heights(values: Sequence[Value | None]) -> dict[Value | None, float]:
    """Positions of values on an axis from 0 to 1: numbers by size, words evenly spaced; None has no position."""
    present = {value for value in values if value is not None}
    numbers = sorted(value for value in present if not isinstance(value, str))
    if numbers:
        low, span = numbers[0], (numbers[-1] - numbers[0]) or 1
        return {value: (value - low) / span if len(numbers) > 1 else 0.5 for value in numbers}
    words = sorted(str(value) for value in present)
    return {word: (index + 0.5) / len(words) for index, word in enumerate(words)}


def _write_scale(panel: Axes, position: int, heights: Mapping[Value | None, float]) -> None:
    """Label all values along an axis if there are few, else both ends."""
    ticks = sorted(heights.items(), key=lambda item: item[1])
    for value, height in ticks if len(ticks) <= 5 else (ticks[0], ticks[-1]):
        label = value if isinstance(value, str) else f"{value:.4g}"
        panel.annotate(
            str(label), (position, height), (5, 0), textcoords="offset points", va="center", fontsize=drawing.SMALL,
            bbox={"facecolor": "white", "edgecolor": "none", "alpha": 0.75, "pad": 1},
        )  # fmt: skip


@drawing.for_narrow_screens
def plot_curves(data: SearchData) -> bytes:
    """The best dev BLEU of each trial so far, by evaluation; a cross where ASHA stopped it."""
    best_trials = best(data.trials, data.objectives)
    with drawing.new_figure(10, 3.4) as figure:
        panel = figure.subplots()
        for trial in watched(data):
            xs, ys = zip(*trial.curve, strict=True)
            colour: Any = _BEST if trial in best_trials else _COLOUR if trial.state == "finished" else _OTHER
            panel.plot(xs, ys, color=colour, marker="o", markersize=3.5, linewidth=1.5)
            if trial.state == "stopped":
                panel.plot(xs[-1], ys[-1], "x", color="#4b5058", markersize=8)
        panel.set(xlabel="evaluations", ylabel="best BLEU on dev so far")
        panel.locator_params(axis="x", integer=True)
        return drawing.png(figure)


@drawing.for_narrow_screens
def plot_importance(data: SearchData) -> bytes:
    """How much each parameter decides whether a trial is among the best, by objective."""
    with drawing.new_figure(10, 1.2 + 0.34 * len(data.parameters)) as figure:
        panels = drawing.side_by_side(figure, len(data.importance))
        for panel, (objective, shares) in zip(panels, data.importance.items(), strict=True):
            names, values = zip(*sorted(shares.items(), key=lambda item: -item[1]), strict=True)
            drawing.bars(panel, names, values, [f"{share:.2f}" for share in values], _COLOUR)
            panel.set(title=f"For {TITLES[objective]}", xlim=(0, 1.15))
        return drawing.png(figure)


def finished(data: SearchData) -> list[TrialResult]:
    """The trials that were measured."""
    return [trial for trial in data.trials if trial.state == "finished"]


def watched(data: SearchData) -> list[TrialResult]:
    """The trials whose finetuning was observed."""
    return [trial for trial in data.trials if trial.curve]
