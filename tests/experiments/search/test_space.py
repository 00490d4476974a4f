"""Trials as systems: what they are asked for, what they share, and how they are written down."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from small_experiments import planned
from small_searches import searchable
from subgraft.config.experiment import Experiment
from subgraft.config.experiment.search import Range
from subgraft.config.experiment.systems import System
from subgraft.config.loading import load
from subgraft.config.yaml_tree import parse
from subgraft.experiments.pipeline import Pipeline
from subgraft.experiments.search.space import (
    as_yaml,
    draw,
    grid,
    identity,
    round_to_digits,
    search_settings,
    template,
    trial_steps,
    trial_system,
)
from subgraft.experiments.search.trial_results import TrialResult, Value
from subgraft.orchestration.store.step import in_order
from subgraft.orchestration.store.store import Store
from subgraft.pipeline.stages.evaluation import EvaluateStage
from subgraft.training.context import Json
from subgraft.training.progress import CURVE


@pytest.fixture(scope="module")
def config(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return searchable(tmp_path_factory.mktemp("search"))


@pytest.fixture(scope="module")
def pipeline(config: Path) -> Pipeline:
    return planned(config)


def made(pipeline: Pipeline, number: int, **values: Value) -> dict[str, str]:
    """The steps of a trial, by fingerprint."""
    steps = trial_steps(pipeline, TrialResult(number, values))
    return {step.fingerprint: step.stage.stage_name for step in in_order(steps.targets)}


@pytest.mark.parametrize(("kind", "asked"), [("avg", {"initialiser", "vocabulary_size"}), ("patt", None)])
def test_a_trial_is_asked_only_for_what_it_needs(pipeline: Pipeline, kind: str, asked: set[str] | None) -> None:
    space = search_settings(pipeline).space

    def choose(name: str, choices: Any) -> Value:
        return kind if name == "initialiser" else choices.max if isinstance(choices, Range) else choices[0]

    assert set(draw(space, template(pipeline), choose)) == (asked or set(space.varied))


def test_a_trial_may_have_any_initialiser_and_mode(config: Path) -> None:
    space = "search.space={vocabulary_mode: [extend, trim], initialiser: [patt, vocadt, focus], kd_weight: [0.5]}"
    experiment = load(config, Experiment, [space, "search.trials=null", "search.sampler=grid"])
    assert experiment.vocadt_training is not None, "the preset's, for the search alone"
    pipeline = Pipeline(experiment, config.parent)
    trials = grid(search_settings(pipeline).space, template(pipeline))
    assert [tuple(trial.values()) for trial in trials] == [
        ("extend", "patt", 0.5),
        ("extend", "vocadt"),
        ("extend", "focus"),
        ("trim",),
    ]
    for number, values in enumerate(trials, 1):
        trial = TrialResult(number, values)
        assert trial_system(template(pipeline), trial).initialiser == values.get("initialiser")
        named = made(pipeline, number, **values).values()
        assert ("generator" in named, "vocadt" in named, "static" in named) == (
            "patt" in values.values(),
            "vocadt" in values.values(),
            "focus" in values.values(),
        )


@pytest.mark.parametrize(
    ("value", "within", "expected"),
    [(0.123456, (0, 1), 0.123), (0.0, (0, 1), 0.0), (12.3456, (0, 20), 12.3), (0.9999, (0, 0.9995), 0.9995)],
)
def test_drawn_numbers_can_be_written_down(value: float, within: tuple[float, float], expected: float) -> None:
    assert round_to_digits(value, Range(min=within[0], max=within[1])) == expected


def test_equal_trials_are_the_same_steps_and_others_share_what_they_can(pipeline: Pipeline) -> None:
    one = made(pipeline, 1, initialiser="avg", vocabulary_size=80)
    assert made(pipeline, 2, initialiser="avg", vocabulary_size=80, kd_weight=0.3) == one, "avg has no kd_weight"
    other = made(pipeline, 3, initialiser="patt", vocabulary_size=80, kd_weight=0.3)
    shared = sorted(one[each] for each in one.keys() & other.keys())
    assert shared == ["corpus", "corpus", "pretrain", "vocabulary", "vocabulary", "vocabulary"]
    again = made(pipeline, 4, initialiser="patt", vocabulary_size=70, kd_weight=0.3)
    assert "generator" in {other[each] for each in other.keys() & again.keys()}, "a generator knows no new vocabulary"


def test_a_trial_has_no_part_in_the_test_set(pipeline: Pipeline) -> None:
    steps = trial_steps(pipeline, TrialResult(1, {}))
    (measured,) = [step for step in in_order(steps.targets) if step.stage.stage_name == "evaluate"]
    assert measured.stage.model_dump()["split"] == "dev"
    assert steps.finetune.fingerprint == pipeline.systems[-1].finetune.fingerprint, "a run finds it again"


@pytest.mark.parametrize(
    ("scores", "said"), [((1, 3, 2), []), ((3, 3, 2), ["its dev score was best before any training"])]
)
def test_a_finetuning_that_brought_nothing_is_reported(
    pipeline: Pipeline, tmp_path: Path, scores: tuple[float, ...], said: list[str]
) -> None:
    steps = trial_steps(pipeline, TrialResult(1, {"initialiser": "avg"}))
    alone = replace(steps, finetune=replace(steps.finetune, inputs={}), speed=None)
    store = Store(tmp_path)
    curve = [{"step": step, "values": {"bleu": score, "bits_per_character": 2.0}} for step, score in enumerate(scores)]

    def write(out: Path) -> dict[str, Json]:
        (out / CURVE).write_text(json.dumps(curve))
        return {}

    store.publish(alone.finetune, write)
    assert alone.remarks(store) == said
    assert alone.objectives(store) == {"dev_bleu": 3, "dev_bits_per_character": 2.0}


def test_speed_is_measured_as_the_run_evaluates(config: Path) -> None:
    settings = "evaluation={metrics: [ROUGE-1], beam: 2, speed_sentences: 9}"
    both = "search.objectives=[dev_bleu, sentences_per_second]"
    pipeline = planned(config, settings, both)
    speed = trial_steps(pipeline, TrialResult(1, {"initialiser": "avg"})).speed
    assert speed is not None and isinstance(speed.stage, EvaluateStage)
    measured = speed.stage.evaluation.model_dump()
    asked = pipeline.experiment.evaluation.measurement.model_dump()
    assert measured == {**asked, "test_sentences": 9, "calibration": False}


def test_a_system_is_read_as_it_was_written(pipeline: Pipeline) -> None:
    values: Mapping[str, Value] = {"initialiser": "patt", "kd_weight": 0.31, "vocabulary_size": 80}
    system = trial_system(template(pipeline), TrialResult(7, values))
    read = parse(as_yaml(system), "system").data
    assert System.model_validate(read, strict=True) == system
    assert (system.name, system.kd_weight, system.vocabulary_size) == ("trial-7", 0.31, 80)


def test_a_search_is_the_same_however_many_trials_it_has(config: Path, pipeline: Pipeline) -> None:
    def of(*changes: str) -> str:
        return identity(planned(config, *changes))

    assert of("search.trials=40", "search.concurrent=1", "runtime.cpus_per_step=2") == identity(pipeline)
    different = ("search.seed=2", "search.space.vocabulary_size=[70]", "finetune.epochs=2", "search.asha={}")
    assert len({identity(pipeline), *map(of, different)}) == 1 + len(different)


def test_a_generator_that_matching_starts_from_is_asked_for_its_training_too(config: Path) -> None:
    system = "systems.0={name: system, initialiser: likelihood-matching, starts_from: patt, kd_weight: 0.5}"
    space = "search.space={kd_weight: [0.1, 0.2], vocabulary_size: [70, 80]}"
    experiment = load(
        config, Experiment, [f"systems=[{system.removeprefix('systems.0=')}]", "search.system=system", space]
    )
    assert experiment.search is not None
    (searched_system,) = experiment.systems
    assert set(draw(experiment.search.space, searched_system, lambda name, choices: choices[0])) == {
        "kd_weight",
        "vocabulary_size",
    }
    trial = trial_system(searched_system, TrialResult(1, {"kd_weight": 0.1}))
    assert (trial.kd_weight, trial.starts_from) == (0.1, "patt")
    other = trial_system(searched_system, TrialResult(2, {"initialiser": "avg"}))
    assert (other.initialiser, other.kd_weight, other.starts_from) == ("avg", None, None)
