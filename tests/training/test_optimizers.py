"""Optimizers under the plain engine, compared with the update rules of their papers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import get_args

import pytest
import torch
from torch import Tensor, nn

from subgraft.config.training import OptimizerName, TrainingSettings
from subgraft.training.engine import PlainEngine
from subgraft.training.optimizers import OPTIMIZERS

BETA1, BETA2, EPSILON, RATE = 0.9, 0.98, 1e-9, 0.1


def settings(optimizer: OptimizerName) -> TrainingSettings:
    return TrainingSettings(
        max_steps=9, batch_size=9, learning_rate=RATE, warmup_steps=1, clip_norm=None, optimizer=optimizer
    )


@dataclass(frozen=True)
class Slopes:
    """A batch whose loss is their product with the weights: its gradient is itself."""

    values: Tensor
    shape = (1, 1)

    @property
    def counts(self) -> Mapping[str, int]:
        return {"loss": 1}

    def to(self, device: torch.device | str) -> Slopes:
        return Slopes(self.values.to(device))


class Weights(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.weights = nn.Parameter(torch.tensor([1.0, -2.0, 3.0]))

    def forward(self, batch: Slopes) -> dict[str, Tensor]:
        return {"loss": (self.weights * batch.values).sum()}


GRADIENTS = torch.randn(6, 3, generator=torch.Generator().manual_seed(1))


def trained(engine: PlainEngine, first: int, last: int) -> None:
    for gradient in GRADIENTS[first:last]:
        engine.accumulate(Slopes(gradient), {"loss": 1.0}, last=True)
        engine.step(RATE)


def test_the_table_and_the_settings_have_the_same_names() -> None:
    assert set(get_args(OptimizerName)) == set(OPTIMIZERS)


def test_adamax_takes_the_steps_of_its_algorithm() -> None:
    """Kingma and Ba 2015, algorithm 2, in float64."""
    module = Weights()
    trained(PlainEngine(module, settings("adamax"), torch.device("cpu")), 0, 6)
    weights, mean, norm = torch.tensor([1.0, -2.0, 3.0]).double(), torch.zeros(3).double(), torch.zeros(3).double()
    for step, gradient in enumerate(GRADIENTS.double(), 1):
        mean = BETA1 * mean + (1 - BETA1) * gradient
        norm = torch.maximum(BETA2 * norm, gradient.abs())
        weights -= RATE / (1 - BETA1**step) * mean / norm
    torch.testing.assert_close(module.weights.detach().double(), weights, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("optimizer", get_args(OptimizerName))
def test_a_state_goes_on_in_another_engine_bit_for_bit(optimizer: OptimizerName) -> None:
    straight, killed, resumed = Weights(), Weights(), Weights()
    cpu, chosen = torch.device("cpu"), settings(optimizer)
    trained(PlainEngine(straight, chosen, cpu), 0, 6)
    first, second = PlainEngine(killed, chosen, cpu), PlainEngine(resumed, chosen, cpu)
    trained(first, 0, 4)
    state = {name: tensor.clone() for name, tensor in first.state().items()}
    assert set(state) == {"parameter.weights", *(f"{key}.weights" for key in OPTIMIZERS[optimizer].moments)}
    second.load_state(state, 4)
    trained(second, 4, 6)
    assert torch.equal(resumed.weights, straight.weights)


@pytest.mark.parametrize("optimizer", get_args(OptimizerName))
def test_a_memory_probe_changes_no_step(optimizer: OptimizerName) -> None:
    plain, rehearsed = Weights(), Weights()
    for module, dry in ((plain, False), (rehearsed, True)):
        engine = PlainEngine(module, settings(optimizer), torch.device("cpu"))
        if dry:
            engine.probe_memory(Slopes(GRADIENTS[0]), ["loss"], 2)
        trained(engine, 0, 3)
    assert torch.equal(plain.weights, rehearsed.weights)
