"""The results that Optuna gets and the values it draws, by itself and through Tune's interface; what ASHA stops."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from optuna.trial import TrialState
from ray.tune.schedulers import TrialScheduler

from subgraft.config.experiment.search import HalvingSettings, Objective, Range, SearchSettings, SearchSpace
from subgraft.config.experiment.systems import System
from subgraft.experiments.search.space import grid
from subgraft.experiments.search.study import MIN_TRIALS, ask, importances, study_of
from subgraft.experiments.search.trial_results import TrialResult, Value
from subgraft.experiments.search.tuning import OptunaSearcher, scheduler

SYSTEM = System(name="patt+kd", initialiser="patt", kd_weight=0.5)
SPACE = SearchSpace(initialiser=("avg", "patt"), kd_weight=Range(min=0, max=2), vocabulary_size=(2000, 4000))
BOTH: tuple[Objective, ...] = ("dev_bleu", "sentences_per_second")


def settings(**changes: Any) -> SearchSettings:
    return SearchSettings(**{"system": "patt+kd", "space": SPACE, **changes})


def result(number: int, values: dict[str, Value], bleu: float, state: Any = "finished") -> TrialResult:
    actual = {"dev_bleu": bleu, "sentences_per_second": 100 - bleu} if state == "finished" else {}
    return TrialResult(number, values, state, actual, curve=((1, bleu / 2), (2, bleu)))


def drawn(search: SearchSettings, count: int, known: list[TrialResult]) -> list[dict[str, Value]]:
    study = study_of(search, known)
    return [ask(study, search, SYSTEM)[1] for _ in range(count)]


@pytest.mark.parametrize("sampler", ["tpe", "random"])
@pytest.mark.parametrize("objectives", [BOTH, ("dev_bleu",)])
def test_a_search_that_carries_on_draws_something_new_and_always_the_same(
    sampler: str, objectives: tuple[Objective, ...]
) -> None:
    search = settings(sampler=sampler, objectives=objectives)
    first = drawn(search, 3, [])
    assert first == drawn(search, 3, [])
    known = [result(number, values, float(number)) for number, values in enumerate(first, 1)]
    known.append(result(4, {"initialiser": "avg", "vocabulary_size": 2000}, 1.0, "stopped"))
    known.append(result(5, {"initialiser": "avg", "vocabulary_size": 4000}, 1.0, "refused"))
    later = drawn(search, 3, known)
    assert later == drawn(search, 3, known)
    assert later != first
    assert len(study_of(search, [*known, TrialResult(6, first[0])]).trials) == 5, "one that runs is not known"


def test_values_are_within_the_space_and_conditions_are_kept() -> None:
    for values in drawn(settings(), 30, []):
        assert ("kd_weight" in values) == (values["initialiser"] == "patt")
        assert 0 <= float(values.get("kd_weight", 0)) <= 2 and values["vocabulary_size"] in (2000, 4000)


def test_a_grid_is_every_combination_once_and_goes_on_where_it_was() -> None:
    space = SearchSpace(initialiser=("avg", "patt"), kd_weight=(0.0, 0.5), learning_rate=(1e-3, 5e-4))
    search = settings(space=space, sampler="grid", objectives=("dev_bleu",))
    searcher = OptunaSearcher(search, SYSTEM, {})
    every = [searcher.suggest(str(number)) for number in range(6)]
    assert [each["number"] for each in every] == [1, 2, 3, 4, 5, 6]
    values = [each["values"] for each in every]
    assert values == grid(space, SYSTEM) and all(values.count(each) == 1 for each in values)
    assert sum(each["initialiser"] == "avg" for each in values) == 2, "avg has no kd_weight"
    known = {1: result(1, values[0], 3.0), 2: TrialResult(2, values[1]), 3: result(3, values[2], 1.0, "stopped")}
    later = OptunaSearcher(search, SYSTEM, known)
    assert [later.suggest(str(number))["values"] for number in range(4)] == [values[1], *values[3:]]


def test_what_was_begun_is_done_again_first_under_its_number() -> None:
    begun = TrialResult(2, {"initialiser": "patt", "kd_weight": 0.777, "vocabulary_size": 4000})
    done = result(1, {"initialiser": "avg", "vocabulary_size": 2000}, 10.0)
    searcher = OptunaSearcher(settings(), SYSTEM, {1: done, 2: begun})
    assert searcher.suggest("a") == {"number": 2, "values": begun.values}
    assert searcher.suggest("b")["number"] == 3


@pytest.mark.parametrize("objectives", [BOTH, ("dev_bleu",)])
def test_optuna_gets_every_ending(objectives: tuple[Objective, ...]) -> None:
    searcher = OptunaSearcher(settings(objectives=objectives), SYSTEM, {})
    for trial in "abcd":
        searcher.suggest(trial)
    searcher.on_trial_complete("a", {"state": "finished", "dev_bleu": 12.0, "sentences_per_second": 30.0})
    searcher.on_trial_complete("b", {"best_dev_bleu": 3.0, "evaluation": 1})
    searcher.on_trial_complete("c", {"state": "refused", "said": "too large"})
    searcher.on_trial_complete("d", error=True)
    study = searcher._study
    expected = [TrialState.COMPLETE, TrialState.PRUNED, TrialState.FAIL, TrialState.FAIL]
    assert [trial.state for trial in study.trials] == expected
    assert study.trials[0].values == [12.0, 30.0][: len(objectives)]
    searcher.suggest("e")


def test_asha_goes_by_earlier_trials_as_well() -> None:
    values: dict[str, Value] = {"initialiser": "avg", "vocabulary_size": 2000}
    known = {number: result(number, values, 40.0) for number in (1, 2)}
    search = settings(asha=HalvingSettings(grace_evaluations=1, reduction_factor=2))

    def decision(known: dict[int, TrialResult], bleu: float) -> str:
        asha, controller, trial = scheduler(search, known), Any, SimpleNamespace(trial_id="new")
        asha.on_trial_add(controller, trial)  # type: ignore[arg-type]
        return asha.on_trial_result(controller, trial, {"evaluation": 1, "best_dev_bleu": bleu})  # type: ignore[arg-type]

    anything: Any = SimpleNamespace()
    assert decision(known, 19.9) == TrialScheduler.STOP
    assert decision(known, 20.0) == TrialScheduler.CONTINUE
    assert decision({}, 0.0) == TrialScheduler.CONTINUE
    assert (
        scheduler(settings(asha=None), known).on_trial_result(
            anything, anything, {"evaluation": 1, "best_dev_bleu": 0.0}
        )
        == TrialScheduler.CONTINUE
    )


def test_what_decides_is_found_important() -> None:
    """BLEU is the vocabulary's doing alone here, speed's the opposite."""
    search = settings()
    trials = [
        result(number, {"initialiser": kind, "vocabulary_size": size}, 10.0 + size / 1000)
        for number, (kind, size) in enumerate([(k, s) for k in ("avg", "patt") for s in (2000, 4000)] * 3, 1)
    ]
    trials = [
        t
        if t.values["initialiser"] == "avg"
        else result(t.number, {**t.values, "kd_weight": 0.1 * t.number}, t.objectives["dev_bleu"])
        for t in trials
    ]
    actual = importances(search, trials)
    assert set(actual) == set(BOTH)
    for shares in actual.values():
        assert max(shares, key=shares.__getitem__) == "vocabulary_size"
        assert sum(shares.values()) == pytest.approx(1.0)
    assert importances(search, trials[: MIN_TRIALS - 1]) == {}
