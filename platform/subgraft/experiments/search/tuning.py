"""Run the trials with Ray Tune: searcher (Optuna), scheduler (ASHA), trainable and callback.

Ray's OptunaSearch cannot import earlier results of conditional spaces or of several objectives, and with several leaves
a stopped trial open. So the searcher here uses Optuna's public study directly.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any, get_args

import optuna
from optuna.trial import TrialState
from ray import tune
from ray.tune import Callback, RunConfig, TuneConfig, Tuner
from ray.tune.experiment import Trial
from ray.tune.schedulers import ASHAScheduler, FIFOScheduler, TrialScheduler
from ray.tune.search import Searcher

from subgraft.config.search import Objective, SearchSettings
from subgraft.config.systems import System
from subgraft.experiments.pipeline import Pipeline
from subgraft.experiments.search.recorder import Recorder
from subgraft.experiments.search.space import grid, searched, template, wanted
from subgraft.experiments.search.study import ask, study_of
from subgraft.experiments.search.trial import BLEU, EVALUATION, RESOURCES, SAID, STATE, run_trial
from subgraft.experiments.search.trial_results import TrialResult, Value, ended, to_do_again
from subgraft.orchestration.store.provenance import Provenance

# More evaluations than any finetuning has, so that ASHA does not end trials at a limit.
ENDLESS = 10_000


class OptunaSearcher(Searcher):
    """Suggests trials, first those that an earlier invocation did not finish. It stores nothing on disk.

    With a grid it suggests one combination after the other.
    """

    def __init__(self, search: SearchSettings, system: System, known: Mapping[int, TrialResult]) -> None:
        super().__init__()
        self._search = search
        self._system = system
        self._study = study_of(search, known.values())
        self._again = deque(to_do_again(known))
        self._grid = deque(_untried(search, system, known))
        self._last = max(known, default=0)
        self._asked: dict[str, optuna.Trial] = {}

    def suggest(self, trial_id: str) -> dict[str, Any]:
        if self._again:
            trial = self._again.popleft()
            self._study.enqueue_trial(dict(trial.values))
            number = trial.number
        else:
            if self._grid:
                self._study.enqueue_trial(self._grid.popleft())
            self._last += 1
            number = self._last
        self._asked[trial_id], values = ask(self._study, self._search, self._system)
        return {"number": number, "values": values}

    def on_trial_complete(self, trial_id: str, result: dict[str, Any] | None = None, error: bool = False) -> None:
        trial, result = self._asked.pop(trial_id), result or {}
        if result.get(STATE) == "finished":
            self._study.tell(trial, [result[name] for name in self._search.objectives])
        elif error or STATE in result or BLEU not in result:
            self._study.tell(trial, state=TrialState.FAIL)
        else:
            if len(self._search.objectives) == 1:
                trial.report(result[BLEU], result[EVALUATION])
            self._study.tell(trial, state=TrialState.PRUNED)

    def save(self, checkpoint_path: str) -> None:
        """Does nothing: the ledger has the trials."""

    def restore(self, checkpoint_path: str) -> None:
        """Does nothing: the ledger has the trials."""

    def __getstate__(self) -> dict[str, Any]:
        """No state: Tune pickles its components, and nothing loads them."""
        return {}


def _untried(search: SearchSettings, system: System, known: Mapping[int, TrialResult]) -> list[dict[str, Value]]:
    """The combinations of a grid that no trial has tried; none without a grid."""
    if search.sampler != "grid":
        return []
    tried = [dict(trial.values) for trial in known.values()]
    return [values for values in grid(search.space, system) if values not in tried]


def scheduler(search: SearchSettings, known: Mapping[int, TrialResult]) -> TrialScheduler:
    """ASHA over dev BLEU, with the curves of known trials; or no scheduler."""
    settings = search.asha
    if settings is None:
        return FIFOScheduler()  # type: ignore[no-untyped-call]
    asha = ASHAScheduler(
        time_attr=EVALUATION,
        metric=BLEU,
        mode="max",
        max_t=ENDLESS,
        grace_period=settings.grace_evaluations,
        reduction_factor=settings.reduction_factor,
    )
    nobody: Any = None  # asks for a controller, and does not use it
    for trial in ended(tuple(known.values())):
        past: Any = SimpleNamespace(trial_id=trial.name)
        asha.on_trial_add(nobody, past)
        for evaluation, bleu in trial.curve:
            asha.on_trial_result(nobody, past, {EVALUATION: evaluation, BLEU: bleu})
    return asha


def tune_trials(
    pipeline: Pipeline, recorder: Recorder, folder: Path, home: Path, address: str | None, provenance: Provenance
) -> None:
    """Run the trials that are missing on the Ray that is up. Raises TuneError."""
    search, known = searched(pipeline), recorder.trials
    execute = tune.with_parameters(run_trial, pipeline=pipeline, home=home, address=address, provenance=provenance)
    tuner = Tuner(
        tune.with_resources(execute, tune.PlacementGroupFactory([RESOURCES])),
        tune_config=TuneConfig(
            search_alg=OptunaSearcher(search, template(pipeline), known),
            scheduler=scheduler(search, known),
            num_samples=wanted(pipeline) - len(ended(tuple(known.values()))),
            max_concurrent_trials=search.concurrent,
            reuse_actors=True,  # a process takes seconds to import what trials need
            trial_dirname_creator=_directory,
        ),
        run_config=RunConfig(name="tune", storage_path=str(folder), verbose=0, callbacks=[_Telling(recorder)]),
    )
    tuner.fit()


def _directory(trial: Trial) -> str:
    return f"trial-{trial.config['number']}-{trial.trial_id}"


class _Telling(Callback):
    """Passes Tune's events to the recorder."""

    def __init__(self, recorder: Recorder) -> None:
        self._recorder = recorder

    def on_trial_start(self, iteration: int, trials: list[Trial], trial: Trial, **info: Any) -> None:
        self._recorder.begin(trial.config["number"], trial.config["values"])

    def on_trial_result(
        self, iteration: int, trials: list[Trial], trial: Trial, result: dict[str, Any], **info: Any
    ) -> None:
        if BLEU in result:
            self._recorder.evaluated(trial.config["number"], result[EVALUATION], result[BLEU])

    def on_trial_complete(self, iteration: int, trials: list[Trial], trial: Trial, **info: Any) -> None:
        result = trial.last_result
        objectives = {name: result[name] for name in get_args(Objective) if name in result}
        state = result.get(STATE, "stopped")
        self._recorder.end(trial.config["number"], state, objectives, result.get(SAID, ""))

    def on_trial_error(self, iteration: int, trials: list[Trial], trial: Trial, **info: Any) -> None:
        self._recorder.end(trial.config["number"], "failed", {}, "its process died")

    def __getstate__(self) -> dict[str, Any]:
        """No state: Tune pickles its callbacks, and nobody unpickles it."""
        return {}
