"""The page of a search, written anew whenever a trial begins or ends, in one piece."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from subgraft.experiments.pipeline import Pipeline
from subgraft.evaluation.reporting.records import Command
from subgraft.experiments.search.document import render
from subgraft.experiments.search.trial_results import SearchData, TrialResult, best
from subgraft.experiments.search.space import as_yaml, searched, template, trial_system, wanted
from subgraft.experiments.search.study import importances


class Page:
    """Where the page is and which search it shows. dashboard: where Ray's is, once a search runs and has one."""

    def __init__(self, pipeline: Pipeline, folder: Path, tracking: str) -> None:
        self.path = folder / "search.html"
        self.dashboard = ""
        self._pipeline = pipeline
        self._tracking = tracking

    def write(self, trials: Mapping[int, TrialResult]) -> None:
        beside = self.path.with_name(f".{self.path.name}.{os.getpid()}")
        beside.write_text(render(self.data(trials)), encoding="utf-8")
        beside.replace(self.path)

    def systems(self, trials: Mapping[int, TrialResult]) -> str:
        """The best trials as systems of a configuration; one that is best alone takes the searched system's place."""
        system, objectives = template(self._pipeline), searched(self._pipeline).objectives
        chosen = best(tuple(trials.values()), objectives)
        found = [trial_system(system, trial) for trial in chosen]
        named = [found[0].model_copy(update={"name": system.name})] if len(found) == 1 else found
        return "".join(f"  - {as_yaml(each)}\n" for each in named)

    def data(self, trials: Mapping[int, TrialResult]) -> SearchData:
        experiment, search = self._pipeline.experiment, searched(self._pipeline)
        dashboard = [Command("Ray's dashboard", f"http://{self.dashboard}")] if self.dashboard else []
        found = tuple(trial for _, trial in sorted(trials.items()))
        systems = self.systems(trials)
        return SearchData(
            name=experiment.name,
            languages=(experiment.languages.source, experiment.languages.target),
            parameters=tuple(search.space.varied),
            objectives=search.objectives,
            wanted=wanted(self._pipeline),
            trials=found,
            importance=importances(search, found),
            systems=f"systems:\n{systems}" if systems else "",
            commands=(Command("MLflow's page: every trial with its stages and curves", self._tracking), *dashboard),
            generated=any(part.generated for corpus in experiment.corpora.values() for part in corpus.parts),
        )
