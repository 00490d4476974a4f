"""Several objectives on one model: how batches are drawn, and one mBART that learns to translate and to denoise."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from small_experiments import TINY, finish, written
from subgraft.base.errors import UserError
from subgraft.config.experiment import Experiment
from subgraft.config.loading import load
from subgraft.config.training import TrainingSettings
from subgraft.data.text.corpus import Corpus
from subgraft.modeling.bundle import Bundle
from subgraft.training.objectives.compute.interface import ObjectiveInputs
from subgraft.training.objectives.compute.mixture import MixedBatch, MixedLoss, Mixture, objectives_of
from subgraft.training.objectives.denoising import DenoisingSettings
from subgraft.training.schedule import MixedPlan, RampedPlan, data_plan, planned_steps, steps_of

BOTH = "upstream.objectives=[{kind: translation, weight: 3}, {kind: denoising}]"
SETTINGS = TrainingSettings(epochs=3, batch_size=60, learning_rate=0.1, warmup_steps=1)


class Numbers:
    """Examples of one token each; a batch is their numbers."""

    def __init__(self, count: int) -> None:
        self.lengths = np.ones(count, dtype=np.int64)

    def batch(self, indices: np.ndarray, epoch: int) -> Any:
        return indices


def test_batches_are_of_one_objective_and_drawn_by_weight() -> None:
    plans = [RampedPlan(np.ones(count, dtype=np.int64), [(0, 10)], None, seed=3) for count in (60_000, 60_000)]
    plan = MixedPlan(plans, [3.0, 1.0], seed=3)
    batches = plan.epoch(0)
    kinds = [int(batch[0] >= 60_000) for batch in batches]
    assert all((batch >= 60_000).all() == kind for batch, kind in zip(batches, kinds, strict=True))
    drawn = np.concatenate(batches)
    assert len(np.unique(drawn)) == len(drawn), "no example comes twice"
    first, share = kinds.count(0), kinds.count(1) / len(kinds)
    assert first == 6000, "an epoch ends with the first that is used up"
    # Eight thousand draws: a standard error of half a percent.
    assert share == pytest.approx(0.25, abs=0.02)
    again = MixedPlan(plans, [3.0, 1.0], seed=3).epoch(0)
    assert all(np.array_equal(one, two) for one, two in zip(batches, again, strict=True))
    assert [len(batch) for batch in plan.epoch(1)] != [len(batch) for batch in batches]
    assert len(plan.lengths) == 120_000


def test_one_objective_keeps_the_plan_that_it_always_had() -> None:
    data, mixed = Numbers(200), Mixture({"a": Numbers(50), "b": Numbers(150)}, {"a": 1.0, "b": 1.0})
    assert isinstance(data_plan(data, SETTINGS, 1), RampedPlan)
    plan = data_plan(mixed, SETTINGS, 1)
    assert isinstance(plan, MixedPlan)
    assert steps_of(plan, SETTINGS) == sum(len(plan.epoch(epoch)) for epoch in range(3))
    assert planned_steps(SETTINGS, data.lengths, 1) == steps_of(data_plan(data, SETTINGS, 1), SETTINGS)
    batch = mixed.batch(np.array([60, 50]), 0)
    assert batch.kind == "b" and batch.batch.tolist() == [10, 0]
    with pytest.raises(ValueError, match="several objectives"):
        mixed.batch(np.array([49, 50]), 0)


@pytest.mark.slow
def test_one_mbart_learns_to_translate_and_to_denoise_and_a_generator_after_it(tmp_path: Path) -> None:
    training = "generator_training={max_steps: 6, batch_size: 400, precision: fp32}"
    systems = "systems=[{name: patt+kd, initialiser: patt, kd_weight: 0.5}]"
    settings = (
        "model.family=mbart",
        BOTH,
        "pretrain.epochs=20",
        "pretrain.warmup_steps=50",
        "pretrain.learning_rate=0.005",
        "pretrain.select=last",
        training,
        systems,
    )
    pipeline, store = finish(written(tmp_path, TINY), *settings)
    curve = json.loads((store.path(pipeline.models.pretrained) / "curve.json").read_text())
    bits = [point["values"]["bits_per_character"] for point in curve]
    assert bits[-1] < 0.8 * bits[0], "it translates better than untrained"
    trained, corpus = (
        Bundle.load(store.path(pipeline.models.pretrained)),
        Corpus.open(store.path(pipeline.inputs.upstream_corpus)),
    )
    request = ObjectiveInputs(trained, corpus, pipeline.experiment.languages, pipeline.experiment.pretrain, 1)
    objectives = objectives_of(pipeline.experiment.upstream.objectives, request)
    losses = {kind: objective.loss(0.0) for kind, objective in objectives.items()}
    mixed = MixedLoss(trained.model, losses)
    assert mixed.weights == {"translation_loss": 1.0, "denoising_loss": 1.0}
    size = len(trained.decoder)
    with torch.no_grad():
        for kind, objective in objectives.items():
            batch = MixedBatch(kind, objective.batch(np.arange(8), 0))
            ((name, count),) = batch.counts.items()
            assert float(mixed(batch)[name]) / count < 0.9 * np.log(size), f"{kind} is better than chance"
    (system,) = pipeline.systems
    assert system.generator is not None
    assert (store.path(system.generator) / "curve.decoder.json").exists()


@pytest.mark.parametrize(
    ("changes", "complaint"),
    [
        (["upstream.objectives=[{kind: denoising}, {kind: denoising}]"], "must be of different kinds"),
        ([BOTH, "model.family=marian"], "the objective denoising needs model.family mbart or bart"),
        (["upstream.objectives=[{kind: translation}, {kind: masked}]"], "no model can be trained on all of these"),
        (["upstream.objectives=[]"], "upstream.objectives"),
        (["upstream.objectives=[{kind: maskd}]"], "upstream.objectives"),
        (["upstream.objectives=[{kind: translation, block_tokens: 9}]"], "block_tokens"),
        (["upstream.objectives=[{kind: translation, weight: 0}]"], "weight"),
    ],
)
def test_objectives_that_do_not_go_together_are_refused(changes: list[str], complaint: str, tmp_path: Path) -> None:
    with pytest.raises(UserError, match=complaint):
        load(written(tmp_path, TINY), Experiment, changes)


@pytest.mark.parametrize(
    ("changes", "line"),
    [
        (["upstream.objective=denoising"], "[{kind: denoising}]"),
        (
            ["upstream.objective=denoising", "upstream.noise={block_tokens: 96}"],
            "[{kind: denoising, block_tokens: 96}]",
        ),
        (["upstream.noise={permute_sentences: false}"], "[{kind: denoising, noises: {infilling: 0.35}}]"),
        (
            ["upstream.objective=masked", "upstream.masking={share: 0.3}", "upstream.noise={mask_share: 0.5}"],
            "[{kind: masked, share: 0.3}]",
        ),
        (["upstream.objective=translation"], "[{kind: translation}]"),
    ],
)
def test_an_older_configuration_is_refused_with_the_line_to_write(
    changes: list[str], line: str, tmp_path: Path
) -> None:
    with pytest.raises(UserError) as refused:
        load(written(tmp_path, TINY), Experiment, changes)
    complaints = str(refused.value).splitlines()
    assert len(complaints) == len(changes) and all(one.endswith(f"write `objectives: {line}`") for one in complaints)


def test_zero_3_takes_no_objectives_with_heads_of_their_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    config, changes = written(tmp_path, TINY), ("model.family=mbart", BOTH)
    assert load(config, Experiment, [*changes, "runtime.zero_stage=3"]).runtime.zero_stage == 3
    monkeypatch.setattr(DenoisingSettings, "head", "other")
    assert load(config, Experiment, [*changes, "runtime.zero_stage=2"]).runtime.zero_stage == 2
    with pytest.raises(UserError, match="heads of their own"):
        load(config, Experiment, [*changes, "runtime.zero_stage=3"])
