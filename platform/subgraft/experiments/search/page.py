"""The page of a search, rewritten atomically whenever a trial starts or ends."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from subgraft.evaluation.reporting.document import (
    Block,
    Bullets,
    Commands,
    Document,
    Figure,
    Notice,
    Paragraph,
    Section,
    render_html,
)
from subgraft.evaluation.reporting.findings import GENERATED_NOTICE
from subgraft.evaluation.reporting.numbers import MISSING, count, duration, fixed
from subgraft.evaluation.reporting.records import Command
from subgraft.evaluation.reporting.table import Column, Span, Table, Text, table, text
from subgraft.experiments.pipeline import Pipeline
from subgraft.experiments.search.plots import (
    TITLES,
    finished,
    plot_curves,
    plot_front,
    plot_importance,
    plot_parallel,
    watched,
)
from subgraft.experiments.search.space import as_yaml, searched, template, trial_system, wanted
from subgraft.experiments.search.study import importances
from subgraft.experiments.search.trial_results import SearchData, TrialResult, best, ended


class Page:
    """The page's file and its search; `dashboard` is the address of Ray's while a search runs."""

    def __init__(self, pipeline: Pipeline, folder: Path, tracking: str) -> None:
        self.path = folder / "search.html"
        self.dashboard = ""
        self._pipeline = pipeline
        self._tracking = tracking

    def write(self, trials: Mapping[int, TrialResult]) -> None:
        temporary = self.path.with_name(f".{self.path.name}.{os.getpid()}")
        temporary.write_text(render(self.data(trials)), encoding="utf-8")
        temporary.replace(self.path)

    def systems(self, trials: Mapping[int, TrialResult]) -> str:
        """The best trials as systems of a configuration; one that is best alone takes the searched system's place."""
        system, objectives = template(self._pipeline), searched(self._pipeline).objectives
        chosen = best(tuple(trials.values()), objectives)
        systems = [trial_system(system, trial) for trial in chosen]
        named = [systems[0].model_copy(update={"name": system.name})] if len(systems) == 1 else systems
        return "".join(f"  - {as_yaml(each)}\n" for each in named)

    def data(self, trials: Mapping[int, TrialResult]) -> SearchData:
        experiment, search = self._pipeline.experiment, searched(self._pipeline)
        dashboard = [Command("Ray's dashboard", f"http://{self.dashboard}")] if self.dashboard else []
        by_number = tuple(trial for _, trial in sorted(trials.items()))
        systems = self.systems(trials)
        return SearchData(
            name=experiment.name,
            languages=(experiment.languages.source, experiment.languages.target),
            parameters=tuple(search.space.varied),
            objectives=search.objectives,
            wanted=wanted(self._pipeline),
            trials=by_number,
            importance=importances(search, by_number),
            systems=f"systems:\n{systems}" if systems else "",
            commands=(Command("MLflow's page: every trial with its stages and curves", self._tracking), *dashboard),
            generated=any(part.generated for corpus in experiment.corpora.values() for part in corpus.parts),
        )


# The page of a search: the best trials, what mattered, and every trial there is.

REFRESH_SECONDS = 15
ONE_SEED = (
    "Every trial was trained once, and its dev score is that of its best checkpoint: small differences are chance. "
    "The test set has had no part in this. To know, run the best systems over several seeds."
)


def render(data: SearchData) -> str:
    """One self-contained HTML page; while the search runs, a browser loads it again by itself."""
    return render_html(build_document(data))


def build_document(data: SearchData) -> Document:
    """The whole page, in the order in which it is read."""
    sections = [Section("In short", _in_short(data))]
    if finished(data):
        sections.append(Section("The best", tuple(_front(data))))
        sections.append(Section("Values and what came of them", (_parallel(data),)))
    if data.importance:
        sections.append(Section("What mattered", (_importance(data),)))
    if watched(data):
        sections.append(Section("How trials went", (_curves(data),)))
    sections.append(Section("All trials", (_trials(data),)))
    sections.append(Section("Look further", (Commands(data.commands),)))
    done = len(ended(data.trials))
    subtitle = f"{data.languages[0]} → {data.languages[1]} · {count(done)} of {count(data.wanted)} trials done"
    return Document(f"{data.name}: a search", subtitle, tuple(sections), None if data.over else REFRESH_SECONDS)


def _in_short(data: SearchData) -> tuple[Block, ...]:
    notice = [Notice(GENERATED_NOTICE)] if data.generated else []
    states = [trial.state for trial in data.trials]
    counted = [f"{states.count(state)} {state}" for state in dict.fromkeys(states)]
    said = [text(", ".join(counted) if counted else "Nothing has begun yet.")]
    shared = sum(trial.shared for trial in data.trials)
    made = sum(len(trial.made) for trial in data.trials)
    if made:
        said.append(text(f"Trials made {count(made)} steps and took {count(shared)} over from others or from before."))
    said.append(text(ONE_SEED))
    return (*notice, Bullets(tuple(said)))


def _front(data: SearchData) -> list[Block]:
    several = len(data.objectives) > 1
    caption = "Finished trials by number. " + (
        "No other trial beats the orange ones in every objective; the line joins them."
        if several
        else "The best is orange."
    )
    blocks: list[Block] = [Figure("front", plot_front(data), caption)]
    chosen = table(
        _columns(data), [_row(data, trial) for trial in best(data.trials, data.objectives)], "The best trials"
    )
    return [
        *blocks,
        chosen,
        Paragraph(text("As systems of a configuration:")),
        Paragraph(text(Span(data.systems, "code"))),
    ]


def _parallel(data: SearchData) -> Figure:
    caption = (
        "A line per finished trial; orange ones are the best. A trial has no point where it was not asked for a value."
    )
    return Figure("parallel", plot_parallel(data), caption)


def _importance(data: SearchData) -> Figure:
    caption = (
        "How much a parameter decides whether a trial is in the best quarter (conditional PED-ANOVA; shares of one). "
        "With few trials this is rough."
    )
    return Figure("importance", plot_importance(data), caption)


def _curves(data: SearchData) -> Figure:
    caption = (
        "Best dev BLEU so far at each evaluation but the last; a cross where ASHA stopped the trial, which goes by "
        "this alone. Trials whose finetuning was there already are not drawn."
    )
    return Figure("curves", plot_curves(data), caption)


def _trials(data: SearchData) -> Table:
    further = [Column("state"), Column("seconds"), Column("steps made"), Column("taken over"), Column("note", "left")]
    rows = [[*_row(data, trial), *_course(trial)] for trial in data.trials]
    note = "Steps made: those that no trial before it had made, and no run. Note: the first line of why it was refused."
    return table([*_columns(data), *further], rows, "", note)


def _course(trial: TrialResult) -> list[str]:
    seconds = duration(trial.seconds) if trial.seconds else MISSING
    return [trial.state, seconds, str(len(trial.made)), str(trial.shared), trial.said.partition("\n")[0]]


def _columns(data: SearchData) -> list[Column]:
    return [Column("trial"), *map(Column, data.parameters), *(Column(TITLES[name]) for name in data.objectives)]


def _row(data: SearchData, trial: TrialResult) -> list[str | Text]:
    values = [trial.values.get(name) for name in data.parameters]
    shown = [
        MISSING if value is None else f"{value:.4g}" if isinstance(value, float) else str(value) for value in values
    ]
    return [str(trial.number), *shown, *(fixed(trial.objectives.get(name)) for name in data.objectives)]
