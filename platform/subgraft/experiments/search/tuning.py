"""Run the trials with Ray Tune: searcher, scheduler, trainable and callback."""

from __future__ import annotations

from pathlib import Path
from typing import Any, get_args

from ray import tune
from ray.tune import Callback, RunConfig, TuneConfig, Tuner
from ray.tune.experiment import Trial

from subgraft.config.search import Objective
from subgraft.experiments.pipeline import Pipeline
from subgraft.experiments.search.recorder import Recorder
from subgraft.experiments.search.sampler import OptunaSearcher, scheduler
from subgraft.experiments.search.space import searched, template, wanted
from subgraft.experiments.search.trial import BLEU, EVALUATION, RESOURCES, SAID, STATE, run_trial
from subgraft.experiments.search.trial_results import ended
from subgraft.orchestration.store.provenance import Provenance


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
    """Tune's news as the recorder hears them."""

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
        """Nothing: Tune pickles what it is given, and nobody unpickles it."""
        return {}
