"""Run the trials with Ray Tune: one trial as Tune executes it, searcher (Optuna), scheduler (ASHA), and callback.

A trial is the experiment's runner with an observer. Its process only waits for its steps, which are Ray tasks as in any
run. It takes no core, so that its steps can run on a machine with a single one; a step that two trials need is made by
one of them.

Ray's OptunaSearch cannot import earlier results of conditional spaces or of several objectives, and with several leaves
a stopped trial open. So the searcher here uses Optuna's public study directly.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Mapping
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

from subgraft.base.errors import SubgraftError, UserError
from subgraft.config.experiment.search import Objective, SearchSettings
from subgraft.config.experiment.systems import System
from subgraft.experiments.pipeline import Pipeline
from subgraft.experiments.search.recorder import Recorder
from subgraft.experiments.search.space import grid, planned_trials, search_settings, template, trial_steps
from subgraft.experiments.search.study import ask, study_of
from subgraft.experiments.search.trial_results import TrialResult, ended, unfinished_trials
from subgraft.orchestration.execution.runner import run
from subgraft.orchestration.store.events import Metrics, Observer, Progress, Warned
from subgraft.orchestration.store.provenance import Provenance
from subgraft.orchestration.store.step import Step
from subgraft.orchestration.store.store import Store
from subgraft.pipeline.stages.training import FinetuneStage

# The fields of a trial's reports to Tune: the first two during finetuning, the others at the end.
EVALUATION, BLEU, STATE, SAID = "evaluation", "best_dev_bleu", "state", "said"
# A share of a resource that only the head of a cluster has.
RESOURCES = {"node:__internal_head__": 0.001}


def run_trial(
    config: Mapping[str, Any], pipeline: Pipeline, home: Path, address: str | None, provenance: Provenance
) -> None:
    """Make a trial's steps and report to Tune. config: `number` and `values`; the rest is the same for all trials."""
    # How long Tune waits for this thread to end before its process can take another trial, in place of 2 s.
    os.environ["TUNE_FUNCTION_THREAD_TIMEOUT_S"] = "60"
    store, runtime = Store(home), pipeline.experiment.runtime
    try:
        steps = trial_steps(pipeline, TrialResult(config["number"], config["values"]))
        watcher = Watcher(tune.report)
        run(store, steps.targets, runtime, [watcher], address=address, provenance=provenance)
        remarks = [*watcher.warnings, *steps.remarks(store)]
        tune.report({STATE: "finished", SAID: "; ".join(remarks), **steps.objectives(store)})
    except UserError as error:
        tune.report({STATE: "refused", SAID: str(error)})
    except SubgraftError as error:
        tune.report({STATE: "failed", SAID: str(error)})


class Watcher(Observer):
    """An observer that reports the dev scores of a finetuning, by which ASHA decides.

    Tune may end the trial within a report, by SystemExit; the runner then stops the finetuning, whose checkpoints stay.
    The last evaluation is not reported, as the training is over then. Warnings are reported at the end, because every
    report counts as an evaluation in Tune.
    """

    def __init__(self, report: Callable[[dict[str, Any]], None]) -> None:
        self._report = report
        self._scores: dict[int, float] = {}
        self._total = 0
        self.warnings: list[str] = []

    def progress(self, step: Step, event: Progress) -> None:
        if type(step.stage) is FinetuneStage:
            self._total = event.total

    def metrics(self, step: Step, event: Metrics) -> None:
        if type(step.stage) is not FinetuneStage or "dev_bleu" not in event.values or event.step in self._scores:
            return
        self._scores[event.step] = event.values["dev_bleu"]
        if 0 < event.step < self._total:
            self._report({EVALUATION: len(self._scores) - 1, BLEU: max(self._scores.values())})

    def warned(self, step: Step, event: Warned) -> None:
        self.warnings.append(f"{step.name}: {event.line}")


# More evaluations than any finetuning has, so that ASHA does not end trials at a limit.
MAX_EVALUATIONS = 10_000


class OptunaSearcher(Searcher):
    """Suggests trials, first those that an earlier invocation did not finish. It stores nothing on disk.

    With a grid it suggests one combination after the other.
    """

    def __init__(self, search: SearchSettings, system: System, known: Mapping[int, TrialResult]) -> None:
        super().__init__()
        self._search = search
        self._system = system
        self._study = study_of(search, known.values())
        self._unfinished = deque(unfinished_trials(known))
        tried = [dict(trial.values) for trial in known.values()]
        combinations = grid(search.space, system) if search.sampler == "grid" else []
        self._grid = deque(values for values in combinations if values not in tried)
        self._last = max(known, default=0)
        self._trials: dict[str, optuna.Trial] = {}

    def suggest(self, trial_id: str) -> dict[str, Any]:
        if self._unfinished:
            unfinished = self._unfinished.popleft()
            self._study.enqueue_trial(dict(unfinished.values))
            number = unfinished.number
        else:
            if self._grid:
                self._study.enqueue_trial(self._grid.popleft())
            self._last += 1
            number = self._last
        self._trials[trial_id], values = ask(self._study, self._search, self._system)
        return {"number": number, "values": values}

    def on_trial_complete(self, trial_id: str, result: dict[str, Any] | None = None, error: bool = False) -> None:
        trial, result = self._trials.pop(trial_id), result or {}
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


def scheduler(search: SearchSettings, known: Mapping[int, TrialResult]) -> TrialScheduler:
    """ASHA over dev BLEU, with the curves of known trials; or no scheduler."""
    settings = search.asha
    if settings is None:
        return FIFOScheduler()  # type: ignore[no-untyped-call]
    asha = ASHAScheduler(
        time_attr=EVALUATION,
        metric=BLEU,
        mode="max",
        max_t=MAX_EVALUATIONS,
        grace_period=settings.grace_evaluations,
        reduction_factor=settings.reduction_factor,
    )
    controller: Any = None  # required, and not used
    for trial in ended(known.values()):
        past_trial: Any = SimpleNamespace(trial_id=trial.name)
        asha.on_trial_add(controller, past_trial)
        for evaluation, bleu in trial.curve:
            asha.on_trial_result(controller, past_trial, {EVALUATION: evaluation, BLEU: bleu})
    return asha


def tune_trials(
    pipeline: Pipeline, recorder: Recorder, folder: Path, home: Path, address: str | None, provenance: Provenance
) -> None:
    """Run the missing trials on the running Ray cluster. Raises TuneError."""
    search, known = search_settings(pipeline), recorder.trials
    execute = tune.with_parameters(run_trial, pipeline=pipeline, home=home, address=address, provenance=provenance)
    tuner = Tuner(
        tune.with_resources(execute, tune.PlacementGroupFactory([RESOURCES])),
        tune_config=TuneConfig(
            search_alg=OptunaSearcher(search, template(pipeline), known),
            scheduler=scheduler(search, known),
            num_samples=planned_trials(pipeline) - len(ended(known.values())),
            max_concurrent_trials=search.concurrent,
            reuse_actors=True,  # a process takes seconds to import what trials need
            trial_dirname_creator=_directory,
        ),
        run_config=RunConfig(name="tune", storage_path=str(folder), verbose=0, callbacks=[_RecorderCallback(recorder)]),
    )
    tuner.fit()


def _directory(trial: Trial) -> str:
    return f"trial-{trial.config['number']}-{trial.trial_id}"


class _RecorderCallback(Callback):
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
