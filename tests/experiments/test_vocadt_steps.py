"""VocADT as a step: what it is given, who shares it, and that it is in no other system's fingerprint."""

from __future__ import annotations

from pathlib import Path

import pytest

from subgraft.base.errors import UserError
from subgraft.config.experiment import Experiment
from subgraft.config.loading import load
from subgraft.config.runtime import Runtime
from subgraft.embeddings.methods.vocadt import VocadtStage
from subgraft.experiments.pipeline import Pipeline
from subgraft.experiments.steps.system import SystemSteps
from subgraft.orchestration.estimates.estimate import estimates
from subgraft.orchestration.execution.plan import make_plan
from subgraft.orchestration.store.step import Step
from subgraft.orchestration.store.store import Store

SYSTEMS = "systems=[{name: mean, initialiser: mean}, {name: adapted, initialiser: vocadt}]"


def pipeline(repository: Path, *changes: str) -> Pipeline:
    made = load(repository / "configs" / "quickstart.yaml", Experiment, [SYSTEMS, *changes])
    return Pipeline(made, repository / "configs")


def systems(made: Pipeline) -> dict[tuple[str, int], SystemSteps]:
    return {(steps.system.name, steps.seed): steps for steps in made.systems}


def adapting(steps: SystemSteps) -> Step:
    assert steps.distilled is not None and isinstance(steps.distilled.stage, VocadtStage)
    return steps.distilled


def test_all_seeds_share_one_and_the_report_bills_it(repository: Path) -> None:
    made = pipeline(repository)
    result = systems(made)
    first, second = result["adapted", 1], result["adapted", 2]
    assert first.transfer is not None and second.transfer is not None
    assert first.transfer.fingerprint == second.transfer.fingerprint
    step = adapting(first)
    assert set(step.inputs) == {"model", "corpus", *(f"vocabulary/{side}" for side in made.experiment.sides)}
    assert step.inputs["model"] is made.models.pretrained and step.inputs["corpus"] is made.inputs.downstream_corpus
    assert made.report.inputs["distilled/adapted/1"].fingerprint == step.fingerprint
    assert first.generator is None and "intrinsic" not in first.measured


def test_its_settings_are_in_no_other_fingerprint(repository: Path) -> None:
    before, after = (systems(pipeline(repository, *more)) for more in ((), ("vocadt_training.max_steps=7",)))
    assert adapting(before["adapted", 1]).fingerprint != adapting(after["adapted", 1]).fingerprint
    assert before["mean", 1].evaluate.fingerprint == after["mean", 1].evaluate.fingerprint


def test_it_reads_as_many_pairs_as_the_finetuning(repository: Path) -> None:
    """Else the rows would know text that no other system of the comparison has."""
    step = adapting(systems(pipeline(repository, "finetune.max_train_examples=50"))["adapted", 1])
    assert step.stage.max_train_examples == 50  # type: ignore[attr-defined]
    assert adapting(systems(pipeline(repository))["adapted", 1]).stage.max_train_examples is None  # type: ignore[attr-defined]


def test_a_plan_estimates_a_weight_for_every_new_and_old_token(repository: Path, tmp_path: Path) -> None:
    made = pipeline(repository)
    store = Store(tmp_path)
    result = {each.step.name: each for each in estimates(store, make_plan(store, [made.report]), Runtime())}
    settings = made.experiment
    old, new = settings.upstream.vocabulary.size, settings.downstream.vocabulary.size
    parameters = result["vocadt"].parameters
    assert settings.sides == ("decoder",) and parameters.trained == old * new
    neighbour = old * new + (old + new) * settings.model.d_model
    whole = result["finetune mean seed 1"].parameters.total
    assert parameters.total == whole + neighbour - (new - old) * settings.model.d_model


def test_seen_tokens_keep_their_rows(repository: Path) -> None:
    lost = "systems=[{name: adapted, initialiser: vocadt, copy_shared_tokens: false}]"
    with pytest.raises(UserError, match="vocadt learns new tokens only"):
        load(repository / "configs" / "quickstart.yaml", Experiment, [lost])
