"""The report's manifest of each system: the keys of the inputs that made it and judge it."""

from __future__ import annotations

from pathlib import Path

import pytest

from small_experiments import planned
from subgraft.base.errors import UserError
from subgraft.config.experiment import Experiment
from subgraft.config.loading import load
from subgraft.experiments.pipeline import Pipeline
from subgraft.orchestration.store.step import Step
from subgraft.pipeline.stages.report import ReportedSystem

CHANGES = (
    "systems=[{name: plain, vocabulary: upstream}, {name: b.c+1, initialiser: patt},"
    " {name: focus, initialiser: focus}, {name: omp, initialiser: omp}, {name: none, pretraining: none}]",
    "sides=[encoder, decoder]",
    "evaluation.upstream_sentences=30",
    "evaluation.by_token_count=true",
    "intrinsic={tokens: 40}",
)


@pytest.fixture(scope="module")
def pipeline(repository: Path) -> Pipeline:
    config = repository / "configs" / "quickstart.yaml"
    return planned(config, *CHANGES)


@pytest.fixture(scope="module")
def systems(pipeline: Pipeline) -> dict[tuple[str, int], ReportedSystem]:
    return {(system.name, system.seed): system for system in pipeline.report.stage.systems}


def test_every_system_is_there_under_every_seed_in_order(
    pipeline: Pipeline, systems: dict[tuple[str, int], ReportedSystem]
) -> None:
    assert list(systems) == [(steps.system.name, steps.seed) for steps in pipeline.systems]
    assert pipeline.report.stage.baseline == "plain"


def test_another_system_may_be_the_baseline_and_no_model_is_evaluated_again(
    pipeline: Pipeline, repository: Path
) -> None:
    config = repository / "configs" / "quickstart.yaml"
    changed = planned(config, *CHANGES, "evaluation.baseline=focus")
    assert changed.report.stage.baseline == "focus"
    assert [each.evaluate.fingerprint for each in changed.systems] == [
        each.evaluate.fingerprint for each in pipeline.systems
    ]
    with pytest.raises(UserError, match=r"evaluation\.baseline: no system is called old; systems: plain, b\.c\+1"):
        load(config, Experiment, (*CHANGES, "evaluation.baseline=old"))


def test_every_key_leads_to_the_systems_own_step(
    pipeline: Pipeline, systems: dict[tuple[str, int], ReportedSystem]
) -> None:
    inputs = pipeline.report.inputs
    for steps in pipeline.systems:
        message = systems[steps.system.name, steps.seed].inputs
        pairs: dict[str | None, Step | None] = {
            message.finetune: steps.finetune,
            message.evaluate: steps.evaluate,
            message.pretrained: steps.pretrained,
            message.transfer: steps.transfer,
            message.generator: steps.generator,
            **{key: steps.measured[part] for part, key in message.measured.items()},
            **{key: steps.static[side] for side, key in message.static.items()},
        }
        for key, step in pairs.items():
            assert (key is None) == (step is None)
            assert key is None or step is None or inputs[key].fingerprint == step.fingerprint
        assert set(message.static) == set(steps.static)
        assert set(message.measured) == set(steps.measured) >= {"likelihood", "upstream_after"}


def test_no_step_is_given_twice(pipeline: Pipeline, systems: dict[tuple[str, int], ReportedSystem]) -> None:
    prints = [step.fingerprint for step in pipeline.report.inputs.values()]
    assert len(prints) == len(set(prints)) + 1, "but for the upstream model, which is an input of its own"
    focus, omp = systems["focus", 1].inputs, systems["omp", 1].inputs
    assert focus.static == omp.static and focus.pretrained == systems["plain", 2].inputs.pretrained
