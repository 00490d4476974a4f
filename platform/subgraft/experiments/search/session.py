"""Searches in one store: prepare, run with Tune, record, report.

<home>/searches/<name>-<identity>/trials.jsonl    the ledger
<home>/searches/<name>-<identity>/search.html     the page
<home>/searches/<name>-<identity>/tune/           Tune's own files, while it runs; nothing reads them again
"""

from __future__ import annotations

import logging
import os
import shutil
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from subgraft.base.errors import OperationalError, UserError
from subgraft.base.locks import Lock
from subgraft.config.experiment import Experiment
from subgraft.experiments.pipeline import Pipeline
from subgraft.experiments.preflight import require_libraries
from subgraft.experiments.search.page import Page
from subgraft.experiments.search.recorder import Recorder
from subgraft.experiments.search.space import identity, planned_trials, search_settings, template, trial_steps
from subgraft.experiments.search.trial_results import Ledger, TrialResult, best, ended
from subgraft.experiments.session import further_commands
from subgraft.orchestration.execution.cluster import cluster
from subgraft.orchestration.execution.progress import Display, display_for
from subgraft.orchestration.execution.resources import require_gpus
from subgraft.orchestration.execution.runner import is_local, run
from subgraft.orchestration.store.home import default_home
from subgraft.orchestration.store.provenance import Provenance
from subgraft.orchestration.store.step import Step, in_order
from subgraft.orchestration.store.store import Store
from subgraft.orchestration.tracking.tracker import Tracker

if TYPE_CHECKING:
    from subgraft.base.terminal import Terminal

LEDGER = "trials.jsonl"
ENVIRONMENT = {
    "TUNE_DISABLE_AUTO_CALLBACK_LOGGERS": "1",  # else it writes unneeded files
    "TUNE_DISABLE_SIGINT_HANDLER": "1",  # else an interrupted search ends as if it were complete
    "TUNE_DISABLE_STRICT_METRIC_CHECKING": "1",  # ASHA's metric is reported before the objectives
    "RAY_AIR_NEW_OUTPUT": "0",
}


@dataclass(frozen=True)
class SearchOutcome:
    """The result of a search; the same command repeats `failed` trials."""

    page: Page
    trials: tuple[TrialResult, ...]
    failed: tuple[TrialResult, ...]

    @property
    def systems(self) -> str:
        """The best trials as systems of a configuration."""
        return self.page.systems(self.trials)


def sessions(experiment: Experiment, base: Path) -> list[SearchSession]:
    """A search for each searched system. Raises UserError if the experiment has no section `search`."""
    if experiment.search is None:
        hint = "configs/search.yaml has one."
        raise UserError("the configuration has no section `search`", where=experiment.name, hint=hint)
    require_libraries(experiment)
    return [SearchSession(pipeline) for pipeline in _pipelines(experiment, base)]


class SearchSession:
    """A search around one system, in the default store."""

    def __init__(self, pipeline: Pipeline) -> None:
        self._search = search_settings(pipeline)
        self._pipeline = pipeline
        self._home = default_home().absolute()
        self._identity = identity(self._pipeline)
        self.folder = _folder(self._home, self._pipeline)

    @property
    def system(self) -> str:
        """The name of the system that is searched."""
        return template(self._pipeline).name

    def run(self, console: Terminal, address: str | None = None) -> SearchOutcome:
        """Run the missing trials; only one process at a time runs a search."""
        if is_local(address):
            require_gpus(self._pipeline.experiment.runtime)
        self.folder.mkdir(parents=True, exist_ok=True)
        lock = Lock.take(self.folder / "claim")
        if lock is None:
            hint = "Wait for it, or change what is searched for."
            raise OperationalError("another process is at this search", where=str(self.folder), hint=hint)
        with lock:
            return self._run(display_for(console), address or os.environ.get("RAY_ADDRESS"))

    def _run(self, display: Display, address: str | None) -> SearchOutcome:
        store, experiment = Store(self._home, display.say), self._pipeline.experiment
        tracker = Tracker(
            store,
            experiment.name,
            display.say,
            name=time.strftime(f"{experiment.name}-search-{self.system}-%Y%m%d-%H%M%S"),
            uri=experiment.runtime.tracking_uri,
            params=experiment.model_dump(mode="json"),
            tags={"kind": "search", "search": self._identity},
        )
        commands = further_commands("", experiment.languages, tracker.name, experiment.runtime.tracking_uri)
        page = Page(self._pipeline, self.folder, dict(commands)["MLflow page"])
        ledger = Ledger(self.folder / LEDGER)
        recorder = Recorder(self._pipeline, store, ledger, tracker, display.say, page.write)
        status = "FAILED"
        try:
            recorder.report_earlier()
            page.write(recorder.trials.values())
            if len(ended(recorder.trials.values())) < planned_trials(self._pipeline):
                with cluster(experiment.runtime, address, display.say) as page.dashboard:
                    self._prepare(store, recorder, display, tracker, address)
                    self._tune(recorder, address)
            status = "FINISHED"
        except KeyboardInterrupt:
            status = "KILLED"
            raise
        finally:
            display.close()
            recorder.leave()
            tracker.close(status)
        results = tuple(recorder.trials.values())
        failed = tuple(trial for trial in results if trial.state == "failed")
        reasons = [trial.said for trial in results if trial.said]
        if reasons and not failed and not best(results, self._search.objectives):
            raise UserError(f"no trial could be done; the first: {reasons[0]}", where="search.space")
        return SearchOutcome(page, results, failed)

    def _prepare(
        self, store: Store, recorder: Recorder, display: Display, tracker: Tracker, address: str | None
    ) -> None:
        """Make the shared inputs of all trials, with the complete machine, before any trial starts."""
        system = self._pipeline.system(template(self._pipeline), self._pipeline.experiment.seeds[0])
        targets = [*([system.pretrained] if system.pretrained else []), self._pipeline.inputs.downstream_corpus]
        run(store, targets, self._pipeline.experiment.runtime, [display, tracker], address=address)
        recorder.exclude_shared(in_order(targets))

    def _tune(self, recorder: Recorder, address: str | None) -> None:
        for name, value in ENVIRONMENT.items():
            os.environ.setdefault(name, value)
        from ray.tune.error import TuneError

        from subgraft.experiments.search.tuning import tune_trials

        logging.getLogger("ray.tune").setLevel(logging.ERROR)
        shutil.rmtree(self.folder / "tune", ignore_errors=True)  # a killed search's
        try:
            tune_trials(self._pipeline, recorder, self.folder, self._home, address, Provenance.here())
        except TuneError as error:
            hint = "Run the same command again: it continues the search."
            raise OperationalError(f"Ray Tune failed: {error}", where=str(self.folder), hint=hint) from error
        finally:
            shutil.rmtree(self.folder / "tune", ignore_errors=True)


def last_trial_steps(home: Path, experiment: Experiment, base: Path) -> list[Step]:
    """The last steps of all trials so far, made or not; garbage collection retains their artifacts."""
    return [
        step
        for pipeline in _pipelines(experiment, base)
        for trial in Ledger(_folder(home, pipeline) / LEDGER).trials().values()
        for step in trial_steps(pipeline, trial).targets
    ]


def _pipelines(experiment: Experiment, base: Path) -> list[Pipeline]:
    """The experiment once for each system that is searched."""
    searches = experiment.search.each_system() if experiment.search else []
    return [Pipeline(experiment.model_copy(update={"search": search}), base) for search in searches]


def _folder(home: Path, pipeline: Pipeline) -> Path:
    return home / "searches" / f"{pipeline.experiment.name}-{identity(pipeline)[:12]}"
