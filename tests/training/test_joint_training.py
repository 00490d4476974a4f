"""Trainings whose batches are of two sources: one loss over both, resumed exactly, the same on several workers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file
from torch import Tensor, nn

from engine_runs import STEPS, run_workers
from subgraft.config.training import TrainingSettings
from subgraft.training.checkpoint import Checkpoints
from subgraft.training.engine import PlainEngine
from subgraft.training.loop import Hooks, Trainer


@dataclass(frozen=True)
class Points:
    """Points [n, 3]."""

    points: Tensor

    @property
    def counts(self) -> Mapping[str, int]:
        return {"error": len(self.points)}

    @property
    def shape(self) -> tuple[int, int]:
        return len(self.points), 3

    def to(self, device: torch.device | str) -> Points:
        return Points(self.points.to(device))


class Cloud:
    def __init__(self, count: int, seed: int) -> None:
        self.points = torch.randn(count, 3, generator=torch.Generator().manual_seed(seed))
        self.lengths = np.random.default_rng(seed).integers(1, 6, size=count)

    def batch(self, indices: np.ndarray, epoch: int) -> Points:
        del epoch
        return Points(self.points[indices])


class Clouds:
    """20 points and 50 auxiliary ones, and the batches drawn from them."""

    def __init__(self) -> None:
        self.first, self.second, self.second_share = Cloud(20, 1), Cloud(50, 2), 0.5
        self.lengths = np.concatenate([self.first.lengths, self.second.lengths])
        self.drawn: list[list[int]] = []

    def batch(self, indices: np.ndarray, epoch: int) -> Points:
        self.drawn.append(indices.tolist())
        of_first = indices < 20
        assert of_first.all() or not of_first.any()
        return self.first.batch(indices, epoch) if of_first[0] else self.second.batch(indices - 20, epoch)


class Line(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(5)
        self.line, self.dropout = nn.Linear(3, 1), nn.Dropout(0.2)

    def forward(self, batch: Points) -> dict[str, Tensor]:
        return {"error": ((self.line(self.dropout(batch.points)) - 1.0) ** 2).sum()}


class KilledError(Exception):
    """Stands for a kill."""


def settings(**changes: Any) -> TrainingSettings:
    defaults = {"epochs": 4, "batch_size": 24, "learning_rate": 0.05, "warmup_steps": 1, "clip_norm": None}
    return TrainingSettings(**(defaults | changes))


def train(
    directory: Path, chosen: TrainingSettings, die_at: int | None = None, dropout: float = 0.2
) -> tuple[Line, list[list[int]]]:
    model, data = Line(), Clouds()
    model.dropout.p = dropout

    def metrics(step: int, values: Mapping[str, float]) -> None:
        if step == die_at and "train_error" in values:
            raise KilledError

    engine = PlainEngine(model, chosen, torch.device("cpu"))
    trainer = Trainer(
        model,
        {"error": 1.0},
        data,
        chosen,
        engine,
        Checkpoints(directory),
        seed=3,
        checkpoint_seconds=1e-9,
        hooks=Hooks(metrics=metrics),
    )
    trainer.probe_memory(trainer.largest_batch())
    data.drawn.clear()
    trainer.run()
    return model, data.drawn


@pytest.mark.parametrize("die_at", [2, 5, 9, 14])
def test_a_resumed_training_is_the_uninterrupted_one(tmp_path: Path, die_at: int) -> None:
    straight, order = train(tmp_path / "straight", settings())
    with pytest.raises(KilledError):
        train(tmp_path / "killed", settings(), die_at)
    resumed, rest = train(tmp_path / "killed", settings())
    assert order[-len(rest) :] == rest and len(rest) < len(order)
    assert torch.equal(straight.line.weight, resumed.line.weight)


def test_the_loss_is_one_mean_over_both_sources(tmp_path: Path) -> None:
    """One step by plain SGD's arithmetic: the gradient of the sum over all points, divided by their number."""
    chosen = settings(epochs=None, max_steps=1, adam_beta1=0.0, adam_beta2=0.0, adam_epsilon=1e3)
    model = Line()
    model.dropout.p = 0.0
    data = Clouds()
    engine = PlainEngine(model, chosen, torch.device("cpu"))
    trainer = Trainer(model, {"error": 1.0}, data, chosen, engine, Checkpoints(tmp_path), seed=3)
    seen: dict[str, Tensor] = {}
    take_step = engine.step

    def step(learning_rate: float) -> None:
        assert model.line.weight.grad is not None
        seen["gradient"] = model.line.weight.grad.clone()
        take_step(learning_rate)

    engine.step = step  # type: ignore[method-assign]
    trainer.run()
    pairs, text = data.drawn
    other = Line()
    points = torch.cat([data.first.points[pairs], data.second.points[[place - 20 for place in text]]])
    ((other.line(points) - 1.0) ** 2).mean().backward()
    assert len(pairs) != len(text)
    assert other.line.weight.grad is not None
    torch.testing.assert_close(seen["gradient"], other.line.weight.grad)


def test_smaller_parts_are_the_same_training(tmp_path: Path) -> None:
    """Except for dropout, which is drawn for each part separately."""
    whole, _ = train(tmp_path / "whole", settings(epochs=2), dropout=0.0)
    parts, drawn = train(tmp_path / "parts", settings(epochs=2, micro_batch_size=5), dropout=0.0)
    assert max(map(len, drawn)) <= 5
    torch.testing.assert_close(parts.line.weight, whole.line.weight)


@pytest.mark.slow
@pytest.mark.parametrize(("kind", "workers"), [("plain", 2), ("zero2", 2)])
def test_several_workers_agree_with_one(tmp_path: Path, kind: str, workers: int) -> None:
    alone = run_workers("plain", 1, tmp_path / "alone", task="joint")
    together = run_workers(kind, workers, tmp_path / "several", task="joint")
    assert together == pytest.approx(alone, rel=1e-4) and len(together) == STEPS
    one, several = (load_file(tmp_path / place / "final.safetensors") for place in ("alone", "several"))
    for name, tensor in one.items():
        if name.startswith("parameter.") and not name.endswith("k_proj.bias"):
            torch.testing.assert_close(several[name].reshape(tensor.shape), tensor, rtol=1e-2, atol=2e-4, msg=name)
