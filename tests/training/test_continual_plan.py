"""Objectives that join at a step (ERNIE 2's continual training), and learning rates that follow each one's updates."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from scipy import stats
from torch import Tensor, nn

from small_experiments import TINY, written
from subgraft.base.errors import UserError
from subgraft.config.experiment import Experiment
from subgraft.config.loading import load
from subgraft.config.training import PretrainSettings
from subgraft.training.checkpoint import Checkpoints
from subgraft.training.engine import PlainEngine
from subgraft.training.loop import Hooks, Trainer
from subgraft.training.objectives.compute.interface import ObjectiveLoss
from subgraft.training.objectives.compute.mixture import MixedBatch, MixedLoss, Mixture
from subgraft.training.optimizers import ScheduleLength, learning_rate
from subgraft.training.schedule import MixedPlan, RampedPlan, data_plan

SETTINGS: dict[str, Any] = {
    "max_steps": 40,
    "batch_size": 8,
    "learning_rate": 0.01,
    "schedule": "noam",
    "warmup_steps": 4,
    "schedule_per_objective": True,
    "adam_beta2": 0.98,
}
JOINS = {"a": 0, "b": 9, "c": 20}


@dataclass(frozen=True)
class Numbers:
    inputs: Tensor

    @property
    def counts(self) -> Mapping[str, int]:
        return {"loss": len(self.inputs)}

    @property
    def shape(self) -> tuple[int, int]:
        return len(self.inputs), 1

    def to(self, device: torch.device | str) -> Numbers:
        return Numbers(self.inputs.to(device))


class Points:
    """Examples that depend on their numbers and on the stage that the step is in."""

    def __init__(self, count: int, seed: int) -> None:
        self.inputs = torch.from_numpy(np.random.default_rng(seed).normal(size=(count, 3))).float()
        self.lengths = np.ones(count, dtype=np.int64)
        self.scale = 1.0

    def begin(self, step: int) -> None:
        self.scale = 1.0 + step // 10

    def batch(self, indices: np.ndarray, epoch: int) -> Numbers:
        return Numbers(self.inputs[indices] * self.scale)


class Head(ObjectiveLoss):
    def __init__(self, body: nn.Module) -> None:
        super().__init__()
        self.body, self.own = body, nn.Linear(2, 1)

    def forward(self, batch: Numbers) -> dict[str, Tensor]:
        return {"loss": (self.own(self.body(batch.inputs)) ** 2).sum()}


def _trainer(
    place: Path, die_at: int | None = None, **changes: Any
) -> tuple[MixedLoss, Trainer, list[tuple[int, Any]]]:
    torch.manual_seed(1)
    body = nn.Sequential(nn.Linear(3, 2), nn.Dropout(0.2))
    module = MixedLoss(body, {kind: Head(body) for kind in JOINS})
    data = Mixture({kind: Points(60, at) for at, kind in enumerate(JOINS)}, {"a": 1.0, "b": 2.0, "c": 3.0}, JOINS)
    settings, seen = PretrainSettings.model_validate(SETTINGS | changes), list[tuple[int, Any]]()

    def metrics(step: int, values: Mapping[str, float]) -> None:
        kind = next((name for name in JOINS if f"train_{name}_loss" in values), None)
        seen.append((step, (kind, values["learning_rate"])))
        if step == die_at:
            raise KeyboardInterrupt

    engine = PlainEngine(module, settings, torch.device("cpu"))
    trainer = Trainer(
        module,
        module.weights,
        data,
        settings,
        engine,
        Checkpoints(place),
        seed=3,
        checkpoint_seconds=1e-9,
        hooks=Hooks(metrics=metrics),
        width=16,
        schedule_by_source=settings.schedule_per_objective,
    )
    return module, trainer, seen


def test_an_objective_is_drawn_from_its_step_on_and_then_by_its_weight() -> None:
    """χ² of the sources of 6,000 batches after all have joined, and none before its step."""
    plans = [RampedPlan(np.ones(60_000, dtype=np.int64), [(0, 10)], None, seed=3) for _ in range(3)]
    plan = MixedPlan(plans, [1.0, 2.0, 1.0], 3, [0, 90, 200])
    kinds = np.array([plan.source_of(batch) for batch in plan.epoch(0)])
    assert set(kinds[:90]) == {0} and set(kinds[90:200]) == {0, 1} and set(kinds[200:]) == {0, 1, 2}
    counts = np.bincount(kinds[200:6200], minlength=3)
    assert stats.chisquare(counts, 6000 * np.array([0.25, 0.5, 0.25])).pvalue > 1e-3
    second = np.bincount(kinds[90:200], minlength=2)
    assert stats.chisquare(second, 110 * np.array([1, 2]) / 3).pvalue > 1e-3
    later = [plan.source_of(batch) for batch in plan.epoch(1, first_step=150)]
    assert set(later[:50]) == {0, 1} and 2 in later[50:], "steps are those of the training, not of the epoch"
    usual = MixedPlan(plans, [1.0, 2.0, 1.0], 3)
    at_once = MixedPlan(plans, [1.0, 2.0, 1.0], 3, [0, 0, 0])
    assert all(np.array_equal(one, two) for one, two in zip(usual.epoch(2), at_once.epoch(2), strict=True))


def test_each_objective_warms_up_by_its_own_updates(tmp_path: Path) -> None:
    _, trainer, seen = _trainer(tmp_path)
    trainer.run()
    assert [step for step, _ in seen] == list(range(1, 41))
    updates = dict.fromkeys(JOINS, 0)
    settings = PretrainSettings.model_validate(SETTINGS)
    for step, (kind, rate) in seen:
        assert step > JOINS[kind]
        updates[kind] += 1
        assert rate == learning_rate(settings, updates[kind], ScheduleLength(4, 0, 16))
    assert min(updates.values()) > 4, "all have had their warm-up"
    (_, (_, first)), *_ = [entry for entry in seen if entry[1][0] == "c"]
    assert first == seen[0][1][1], "the last one starts like the first"


@pytest.mark.parametrize("die_at", [9, 21])
def test_a_resumed_training_has_the_same_bytes(tmp_path: Path, die_at: int) -> None:
    straight, trainer, _ = _trainer(tmp_path / "straight")
    trainer.run()
    with pytest.raises(KeyboardInterrupt):
        _trainer(tmp_path / "killed", die_at)[1].run()
    resumed, trainer, seen = _trainer(tmp_path / "killed")
    trainer.run()
    assert 0 < len(seen) < 40
    again = dict(resumed.named_parameters())
    assert all(torch.equal(again[name], parameter) for name, parameter in straight.named_parameters())


def test_the_usual_schedule_follows_the_training(tmp_path: Path) -> None:
    _, trainer, seen = _trainer(tmp_path, schedule_per_objective=False)
    trainer.run()
    settings = PretrainSettings.model_validate(SETTINGS | {"schedule_per_objective": False})
    assert [rate for _, (_, rate) in seen] == [
        learning_rate(settings, step, ScheduleLength(4, 0, 16)) for step in range(1, 41)
    ]


def test_batches_of_a_plan_know_their_objective() -> None:
    data = Mixture({"a": Points(5, 1), "b": Points(7, 2)}, {"a": 1.0, "b": 1.0}, {"a": 0, "b": 1})
    plan = data_plan(data, PretrainSettings.model_validate(SETTINGS), 1)
    assert isinstance(plan, MixedPlan) and plan.from_steps == [0, 1]
    assert [plan.source_of(np.array([index])) for index in (0, 4, 5, 11)] == [0, 0, 1, 1]
    batch = data.batch(np.array([5, 6]), 0)
    assert isinstance(batch, MixedBatch) and batch.kind == "b"


BOTH = "upstream.objectives=[{kind: translation}, {kind: denoising, from_step: 5}]"
NO_END = "pretrain={max_steps: 9, epochs: null, batch_size: 500}"


@pytest.mark.parametrize(
    ("changes", "complaint"),
    [
        ([BOTH], "changes at step 5: write pretrain.max_steps and `epochs: null`"),
        ([BOTH, "pretrain={max_steps: 5, epochs: null, batch_size: 9}"], "the pretraining ends after 5 updates"),
        (["upstream.objectives=[{kind: denoising, from_step: 2}]", NO_END], "one of them must begin at once"),
        (["pretrain.schedule_per_objective=true"], "needs several upstream.objectives"),
        (
            ["pretrain={schedule_per_objective: true, schedule: linear, max_steps: 9, batch_size: 9}"],
            "linear needs the number of updates",
        ),
    ],
)
def test_objectives_that_never_join_are_refused(changes: list[str], complaint: str, tmp_path: Path) -> None:
    with pytest.raises(UserError, match=complaint):
        load(written(tmp_path, TINY), Experiment, ["model.family=mbart", *changes])


def test_an_objective_may_join_in_time(tmp_path: Path) -> None:
    loaded = load(written(tmp_path, TINY), Experiment, ["model.family=mbart", BOTH, NO_END])
    assert [objective.from_step for objective in loaded.upstream.objectives] == [0, 5]
