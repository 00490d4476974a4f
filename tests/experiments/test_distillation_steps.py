"""The distillation of new tokens as a step: shared by seeds, of all sides, and absent where no system needs it."""

from __future__ import annotations

from pathlib import Path

import pytest

from subgraft.base.errors import UserError
from subgraft.config.experiment import Experiment
from subgraft.config.loading import load
from subgraft.embeddings.methods.attention_influence import AttentionInfluenceStage
from subgraft.experiments.pipeline import Pipeline
from subgraft.experiments.steps.system import SystemSteps
from subgraft.orchestration.store.step import Step

SYSTEMS = "systems=[{name: mean, initialiser: mean}, {name: distilled, initialiser: token-distillation}]"


def experiment(repository: Path, *changes: str) -> Experiment:
    return load(repository / "configs" / "quickstart.yaml", Experiment, [SYSTEMS, *changes])


def systems(repository: Path, *changes: str) -> dict[tuple[str, int], SystemSteps]:
    made = Pipeline(experiment(repository, *changes), repository / "configs")
    return {(steps.system.name, steps.seed): steps for steps in made.systems}


def distilled(repository: Path, *changes: str) -> Step:
    step = systems(repository, *changes)["distilled", 1].distilled
    assert step is not None
    return step


def test_one_distillation_serves_all_seeds_and_the_report_bills_it(repository: Path) -> None:
    made = Pipeline(experiment(repository), repository / "configs")
    steps = {(steps.system.name, steps.seed): steps for steps in made.systems}
    first, second = steps["distilled", 1], steps["distilled", 2]
    assert first.distilled is not None and first.transfer is not None and second.transfer is not None
    assert first.transfer.fingerprint == second.transfer.fingerprint
    assert first.distilled.inputs["model"] is made.models.pretrained
    assert first.distilled.inputs["corpus"] is made.inputs.downstream_corpus
    assert steps["mean", 1].distilled is None
    assert made.report.inputs["distilled/distilled/1"].fingerprint == first.distilled.fingerprint


def test_every_side_that_changes_is_distilled_with_its_vocabulary(repository: Path) -> None:
    step = distilled(repository, "sides=[encoder, decoder]")
    assert step.stage.model_dump()["sides"] == ("encoder", "decoder")
    assert {"vocabulary/encoder", "vocabulary/decoder"} < set(step.inputs)
    assert "vocabulary/encoder" not in distilled(repository).inputs


def test_its_settings_are_in_no_other_fingerprint(repository: Path) -> None:
    changes = ("token_distillation.layer=1", "token_distillation_training.max_steps=7")
    assert distilled(repository, *changes).fingerprint != distilled(repository).fingerprint
    plain, changed = systems(repository)["mean", 1], systems(repository, *changes)["mean", 1]
    assert plain.evaluate.fingerprint == changed.evaluate.fingerprint


def test_presets_fill_in_what_is_not_given(repository: Path) -> None:
    training = experiment(repository, "token_distillation_training.max_steps=7").token_distillation_training
    assert training is not None
    assert (training.max_steps, training.precision) == (7, "auto")


def test_a_layer_beyond_the_model_is_refused(repository: Path) -> None:
    with pytest.raises(UserError, match=r"token_distillation\.layer 3 is beyond the 2 layers of a side"):
        experiment(repository, "model.decoder_layers=2", "token_distillation.layer=3")


def test_attention_influence_is_a_step_of_its_own_with_its_own_settings(repository: Path) -> None:
    named = "systems=[{name: distilled, initialiser: attention-influence}]"
    step = distilled(repository, named, "attention_influence.layer=1", "sides=[encoder, decoder]")
    assert (step.name, step.stage.stage_name) == ("attention influence", "attention-influence")
    assert isinstance(step.stage, AttentionInfluenceStage) and step.stage.distillation.layer == 1
    assert {"vocabulary/encoder", "vocabulary/decoder"} < step.inputs.keys()
    with pytest.raises(UserError, match=r"attention_influence\.layer 3 is beyond the 2 layers of a side"):
        experiment(repository, named, "model.decoder_layers=2", "attention_influence.layer=3")
