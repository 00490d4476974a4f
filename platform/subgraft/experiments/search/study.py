"""A search as an Optuna study: the next values, and the importance of parameters."""

from __future__ import annotations

import warnings
from collections.abc import Iterable
from typing import Any

import optuna
from optuna.distributions import BaseDistribution, CategoricalDistribution, FloatDistribution
from optuna.importance import PedAnovaImportanceEvaluator, get_param_importances
from optuna.study import StudyDirection
from optuna.trial import FrozenTrial, TrialState, create_trial

from subgraft.config.experiment.search import MINIMISED, Range, SearchSettings
from subgraft.config.experiment.systems import System
from subgraft.experiments.search.space import draw
from subgraft.experiments.search.trial_results import TrialResult, Value, ended

# With fewer finished trials, estimates of importance would be noise.
MIN_TRIALS = 8
BEST_SHARE = 0.25


def study_of(search: SearchSettings, trials: Iterable[TrialResult]) -> optuna.Study:
    """A study with these trials; the same trials make the same suggestions."""
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    frozen_trials = [_to_frozen_trial(search, trial) for trial in ended(trials)]
    seed = search.seed + len(frozen_trials)  # with the same seed, a random sampler would repeat its first draws
    sampler = optuna.samplers.TPESampler if search.sampler == "tpe" else optuna.samplers.RandomSampler
    directions = [
        StudyDirection.MINIMIZE if name in MINIMISED else StudyDirection.MAXIMIZE for name in search.objectives
    ]
    study = optuna.create_study(directions=directions, sampler=sampler(seed=seed))
    study.add_trials(frozen_trials)
    return study


def ask(study: optuna.Study, search: SearchSettings, system: System) -> tuple[optuna.Trial, dict[str, Value]]:
    """Optuna's next trial with its values: enqueued ones first, then new ones."""
    trial = study.ask()

    def choose(name: str, choices: Range | tuple[Any, ...]) -> Value:
        if isinstance(choices, Range):
            return trial.suggest_float(name, choices.min, choices.max, log=choices.log)
        chosen: Value = trial.suggest_categorical(name, choices)
        return chosen

    return trial, draw(search.space, system, choose)


def importances(search: SearchSettings, trials: Iterable[TrialResult]) -> dict[str, dict[str, float]]:
    """How much each parameter decides whether a trial is among the best in an objective (conditional PED-ANOVA).

    By objective; shares of one. None before there are enough finished trials.
    """
    finished = [trial for trial in trials if trial.state == "finished"]
    if len(finished) < MIN_TRIALS:
        return {}
    study = study_of(search, finished)
    by_objective: dict[str, dict[str, float]] = {}
    for index, objective in enumerate(search.objectives):
        sign = 1.0 if objective in MINIMISED else -1.0  # the evaluator looks for what is low

        def low_is_good(trial: FrozenTrial, index: int = index, sign: float = sign) -> float:
            return sign * float(trial.values[index])

        with warnings.catch_warnings(action="ignore"):
            evaluator = PedAnovaImportanceEvaluator(target_quantile=BEST_SHARE)
            by_objective[objective] = dict(get_param_importances(study, evaluator=evaluator, target=low_is_good))
    return by_objective


def _to_frozen_trial(search: SearchSettings, trial: TrialResult) -> FrozenTrial:
    choices = search.space.varied
    finished, single_objective = trial.state == "finished", len(search.objectives) == 1
    states = {"finished": TrialState.COMPLETE, "stopped": TrialState.PRUNED, "refused": TrialState.FAIL}
    return create_trial(
        state=states[trial.state],
        values=[trial.objectives[name] for name in search.objectives] if finished else None,
        params=dict(trial.values),
        distributions={name: _distribution(choices[name]) for name in trial.values},
        # With several objectives Optuna supports no intermediate values, and ranks stopped trials below finished ones.
        intermediate_values=dict(trial.curve) if single_objective else None,
    )


def _distribution(choices: Range | tuple[Any, ...]) -> BaseDistribution:
    if isinstance(choices, Range):
        return FloatDistribution(choices.min, choices.max, log=choices.log)
    return CategoricalDistribution(choices)
