from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from subgraft.config.training import DropoutFrom, ModelTrainingSettings, TrainingSettings
from subgraft.modeling.sides import set_hidden_dropout
from subgraft.training import engine as engine_module
from subgraft.training import loop
from subgraft.training.checkpoint import Checkpoints
from subgraft.training.engine import PlainEngine
from subgraft.training.loop import Hooks, Trainer
from subgraft.training.progress import Outcome, Selection

EXAMPLES = 64


@dataclass(frozen=True)
class Regression:
    """A batch of a linear regression with a weight per example."""

    inputs: Tensor
    targets: Tensor

    @property
    def counts(self) -> Mapping[str, int]:
        return {"error": len(self.inputs)}

    @property
    def shape(self) -> tuple[int, int]:
        return len(self.inputs), self.inputs.shape[1]

    def to(self, device: torch.device | str) -> Regression:
        return Regression(self.inputs.to(device), self.targets.to(device))


class Points:
    """Points whose cost in a batch differs, so that batches have different sizes."""

    def __init__(self) -> None:
        generator = np.random.default_rng(0)
        self.inputs = torch.from_numpy(generator.normal(size=(EXAMPLES, 6))).float()
        self.targets = self.inputs @ torch.arange(6.0) + 1.0
        self.lengths = generator.integers(1, 8, size=EXAMPLES)
        self.seen: list[tuple[int, list[int]]] = []

    def batch(self, indices: np.ndarray, epoch: int) -> Regression:
        self.seen.append((epoch, indices.tolist()))
        return Regression(self.inputs[indices], self.targets[indices])


class Line(nn.Module):
    """A line with dropout: resuming must restore its randomness too."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(5)
        self.line = nn.Linear(6, 1)
        self.dropout = nn.Dropout(0.3)

    def forward(self, batch: Regression) -> dict[str, Tensor]:
        predicted = self.line(self.dropout(batch.inputs))[:, 0]
        return {"error": ((predicted - batch.targets) ** 2).sum()}


def _settings(**changes: Any) -> TrainingSettings:
    defaults = {"epochs": 3, "batch_size": 40, "learning_rate": 0.05, "warmup_steps": 5, "clip_norm": None}
    return TrainingSettings(**(defaults | changes))


class KilledError(Exception):
    """Stands for a kill: raised in the middle of a training."""


def _train(
    directory: Path, settings: TrainingSettings, die_at: int | None = None, **hooks: Any
) -> tuple[Line, Points, Outcome]:
    model, data = Line(), Points()

    def metrics(step: int, values: Mapping[str, float]) -> None:
        if step == die_at and "train_error" in values:
            raise KilledError

    engine = PlainEngine(model, settings, torch.device("cpu"))
    checkpoints = Checkpoints(directory)
    trainer = Trainer(
        model,
        {"error": 1.0},
        data,
        settings,
        engine,
        checkpoints,
        seed=3,
        checkpoint_seconds=1e-9,
        hooks=Hooks(metrics=metrics, **hooks),
    )
    return model, data, trainer.run()


def test_a_curve_has_a_bounded_number_of_points(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loop, "MAX_CURVE_POINTS", 5)
    steps: list[int] = []
    model, data = Line(), Points()
    settings = _settings(epochs=None, max_steps=23)
    hooks = Hooks(metrics=lambda step, values: steps.append(step) if "train_error" in values else None)
    engine = PlainEngine(model, settings, torch.device("cpu"))
    Trainer(model, {"error": 1.0}, data, settings, engine, Checkpoints(tmp_path), seed=3, hooks=hooks).run()
    assert steps == [5, 10, 15, 20, 23]


@pytest.mark.slow
def test_training_fits(tmp_path: Path) -> None:
    model, _, outcome = _train(tmp_path, _settings(epochs=60, learning_rate=0.3))
    assert outcome.steps > 60
    assert model.line.bias.item() == pytest.approx(1.0, abs=0.5)


@pytest.mark.parametrize("die_at", [1, 4, 8, 9, 15])
def test_a_resumed_training_is_the_uninterrupted_one(tmp_path: Path, die_at: int) -> None:
    """Also twice in one epoch: the same weights bit for bit, and no example twice or missed."""
    settings = _settings()
    straight, data, _ = _train(tmp_path / "straight", settings)
    order = data.seen
    for when in (die_at, die_at + 1):
        with pytest.raises(KilledError):
            _train(tmp_path / "killed", settings, die_at=when)
    resumed, data, outcome = _train(tmp_path / "killed", settings)
    assert torch.equal(resumed.line.weight, straight.line.weight)
    assert torch.equal(resumed.line.bias, straight.line.bias)
    assert data.seen == order[outcome.steps - len(data.seen) :]


def test_every_epoch_sees_each_example_once(tmp_path: Path) -> None:
    _, data, _ = _train(tmp_path, _settings())
    for epoch in range(3):
        seen = [index for e, indices in data.seen if e == epoch for index in indices]
        assert sorted(seen) == list(range(EXAMPLES))


@pytest.mark.parametrize("die_at", [None, 9])
def test_batches_that_are_built_ahead_change_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, die_at: int | None
) -> None:
    """As on a GPU: the same weights bit for bit, in micro-batches too, and across a kill."""
    settings = _settings(micro_batch_size=8)
    plain, _, _ = _train(tmp_path / "plain", settings)
    monkeypatch.setattr(Trainer, "_builds_ahead", True)
    if die_at is not None:
        with pytest.raises(KilledError):
            _train(tmp_path / "ahead", settings, die_at=die_at)
    ahead, data, outcome = _train(tmp_path / "ahead", settings)
    assert torch.equal(ahead.line.weight, plain.line.weight)
    if die_at is None:
        seen = [index for _, indices in data.seen for index in indices]
        assert len(seen) == 3 * EXAMPLES and outcome.steps == 27  # the last batch of each epoch looks no further


def test_an_update_reads_its_losses_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each reading waits for a GPU, so micro-batches must not have one each."""
    read: list[int] = []

    def read_values(parts: Any) -> Any:
        read.append(len(parts))
        return engine_module.read_values(parts)

    monkeypatch.setattr(loop, "read_values", read_values)
    _, _, outcome = _train(tmp_path, _settings(micro_batch_size=8))
    assert len(read) == outcome.steps and max(read) > 1


def test_accumulation_changes_nothing_but_rounding(tmp_path: Path) -> None:
    class NoDropout(Line):
        def forward(self, batch: Regression) -> dict[str, Tensor]:
            return {"error": ((self.line(batch.inputs)[:, 0] - batch.targets) ** 2).sum()}

    weights = []
    for name, micro in (("whole", None), ("parts", 8)):
        settings = _settings(micro_batch_size=micro)
        model = NoDropout()
        engine = PlainEngine(model, settings, torch.device("cpu"))
        Trainer(model, {"error": 1.0}, Points(), settings, engine, Checkpoints(tmp_path / name), seed=3).run()
        weights.append(model.line.weight.detach())
    torch.testing.assert_close(weights[0], weights[1], rtol=1e-4, atol=1e-5)


def test_the_best_weights_are_kept_and_patience_ends_the_training(tmp_path: Path) -> None:
    scores = iter([1.0, 5.0, 4.0, 3.0, 9.0, 9.0, 9.0, 9.0])
    snapshots: list[Tensor] = []
    current: list[Line] = []

    settings = _settings(epochs=8, patience=2)
    model, data = Line(), Points()
    current.append(model)

    def evaluate() -> dict[str, float]:
        snapshots.append(model.line.weight.detach().clone())
        return {"score": next(scores)}

    engine = PlainEngine(model, settings, torch.device("cpu"))
    hooks = Hooks(evaluate=evaluate, select=Selection("score"))
    outcome = Trainer(model, {"error": 1.0}, data, settings, engine, Checkpoints(tmp_path), seed=3, hooks=hooks).run()
    assert [point.values["score"] for point in outcome.curve] == [1.0, 5.0, 4.0, 3.0]
    assert outcome.best_step == outcome.curve[1].step
    assert torch.equal(model.line.weight, snapshots[1])


def test_max_steps_ends_a_training(tmp_path: Path) -> None:
    _, _, outcome = _train(tmp_path, _settings(epochs=None, max_steps=7))
    assert outcome.steps == 7


@pytest.mark.parametrize("die_at", [3, 7, 8])
@pytest.mark.parametrize("schedule", ["linear", "inverse-square-root"])
def test_an_early_end_is_the_beginning_of_the_whole_training(tmp_path: Path, die_at: int, schedule: str) -> None:
    """Whether it is planned from the start, or decided when the whole training is at or near that update."""
    evaluate: dict[str, Any] = {"evaluate": lambda: {"score": 1.0}}
    whole = _settings(epochs=None, max_steps=20, schedule=schedule)
    planned, _, straight = _train(tmp_path / "planned", whole.model_copy(update={"stop_after": 7}), **evaluate)
    assert straight.steps == straight.curve[-1].step == 7
    with pytest.raises(KilledError):
        _train(tmp_path / "whole", whole, die_at=die_at, **evaluate)  # its last checkpoint is of the update before
    stopped, _, outcome = _train(tmp_path / "whole", whole.model_copy(update={"stop_after": 7}), **evaluate)
    assert torch.equal(stopped.line.weight, planned.line.weight) and torch.equal(stopped.line.bias, planned.line.bias)
    assert [point.step for point in outcome.curve] == [point.step for point in straight.curve]
    shorter, _, _ = _train(tmp_path / "shorter", whole.model_copy(update={"max_steps": 7}), **evaluate)
    assert torch.equal(shorter.line.weight, planned.line.weight) == (schedule != "linear"), "max_steps changes the plan"


@pytest.mark.parametrize("die_at", [None, 5, 8])
def test_a_training_is_evaluated_where_it_is_asked_for_and_at_its_ends_alone(
    tmp_path: Path, die_at: int | None
) -> None:
    """Whatever epochs it has, and also when it was killed in between."""
    settings = _settings(epochs=None, max_steps=11, evaluate_at=(1, 4, 8))
    evaluate: dict[str, Any] = {"evaluate": lambda: {"score": 1.0}}
    if die_at is not None:
        with pytest.raises(KilledError):
            _train(tmp_path, settings, die_at=die_at, **evaluate)
    _, _, outcome = _train(tmp_path, settings, **evaluate)
    assert [point.step for point in outcome.curve] == [0, 1, 4, 8, 11]


RAMPED: dict[str, Any] = {
    "schedule": "linear",
    "optimizer": "adamax",
    "batch_size_schedule": [{"step": 5, "batch_size": 80}, {"step": 9, "batch_size": 160}],
}


@pytest.mark.parametrize("die_at", [4, 5, 6, 9, 10])
def test_what_changes_by_step_changes_at_its_step_and_across_a_kill(tmp_path: Path, die_at: int) -> None:
    """Dropout, batch size and learning rate: the same weights bit for bit, the same batches, each rate at its step."""
    settings = ModelTrainingSettings(
        **(_settings(epochs=4, **RAMPED).model_dump()),
        dropout_schedule=(DropoutFrom(step=5, dropout=0.1), DropoutFrom(step=9, dropout=0.0)),
    )

    def train(place: Path, die_at: int | None = None) -> tuple[Line, Points, dict[int, float]]:
        rates: dict[int, float] = {}
        models: list[Line] = []

        def before(step: int) -> None:
            rate = settings.dropout_at(step)
            for model in models:
                if rate is not None:
                    set_hidden_dropout(model, rate)
                rates[step] = model.dropout.p

        made = Line.__init__

        def noted(self: Line) -> None:
            made(self)
            models.append(self)

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(Line, "__init__", noted)
            model, data, _ = _train(place, settings, die_at=die_at, before_update=before)
        return model, data, rates

    straight, data, rates = train(tmp_path / "straight")
    order, steps = data.seen, len(rates)
    assert steps > 10
    assert [rates[step] for step in (0, 4, 5, 8, 9, steps - 1)] == [0.3, 0.3, 0.1, 0.1, 0.0, 0.0]
    with pytest.raises(KilledError):
        train(tmp_path / "killed", die_at)
    resumed, data, again = train(tmp_path / "killed")
    assert again == {step: rates[step] for step in again} and min(again) < die_at
    assert torch.equal(resumed.line.weight, straight.line.weight)
    assert data.seen == order[steps - len(data.seen) :]


def test_the_least_of_a_score_can_choose_the_weights(tmp_path: Path) -> None:
    scores = iter([9.0, 3.0, 4.0, 3.0, 5.0])
    _, _, outcome = _train(
        tmp_path,
        _settings(epochs=4),
        evaluate=lambda: {"bits": next(scores)},
        select=Selection("bits", lower_is_better=True),
    )
    assert outcome.best_step == outcome.curve[1].step
