"""Steps of one subject are built from the objects that they hold, without a whole pipeline."""

from __future__ import annotations

from pathlib import Path

from subgraft.config.experiment import Experiment
from subgraft.config.loading import load
from subgraft.experiments.pipeline import Pipeline
from subgraft.experiments.steps.back_translation import BackTranslationSteps
from subgraft.experiments.steps.inputs import InputSteps
from subgraft.experiments.steps.models import ModelSteps
from subgraft.experiments.steps.vocabularies import VocabularySteps


def test_each_part_gives_the_steps_that_it_gives_within_a_pipeline(repository: Path) -> None:
    config = repository / "configs" / "quickstart.yaml"
    experiment = load(config, Experiment)
    inputs = InputSteps(experiment, config.parent)
    vocabularies = VocabularySteps(inputs)
    models = ModelSteps(inputs, vocabularies)
    whole = Pipeline(experiment, config.parent)
    assert inputs.downstream_corpus.fingerprint == whole.inputs.downstream_corpus.fingerprint
    alone = {side: step.fingerprint for side, step in vocabularies.downstream.items()}
    assert alone == {side: step.fingerprint for side, step in whole.vocabularies.downstream.items()}
    assert models.pretrained.fingerprint == whole.models.pretrained.fingerprint


def test_a_reverse_model_needs_no_systems(repository: Path) -> None:
    config = repository / "configs" / "quickstart.yaml"
    inputs = InputSteps(load(config, Experiment), config.parent)
    models = ModelSteps(inputs, VocabularySteps(inputs))
    step = BackTranslationSteps(inputs, models).model("target", 0)
    assert step.name == "finetune the reverse model"
    assert step.inputs["model"].inputs["encoder"] is models.pretrained.inputs["decoder"]
