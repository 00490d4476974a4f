"""Rows that follow the optimizer in part, against the same in plain numpy."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from subgraft.config.training import FinetuneSettings
from subgraft.training.engine import PlainEngine
from subgraft.training.parameter_groups import ParameterRates
from subgraft.training.rare_rows import RowUpdates

SIZE, WIDTH, STEPS, RATE = 7, 3, 5, 0.02
ROWS = [1, 4, 6]
SETTINGS = FinetuneSettings(
    max_steps=STEPS, batch_size=1, learning_rate=RATE, embedding_learning_rate=3 * RATE, warmup_steps=1, clip_norm=None
)


class Squares(nn.Module):
    """A loss with a gradient in every row of a table and of a bias."""

    def __init__(self) -> None:
        super().__init__()
        random = torch.Generator().manual_seed(1)
        self.table = nn.Parameter(torch.randn(SIZE, WIDTH, generator=random))
        self.bias = nn.Parameter(torch.randn(SIZE, generator=random))
        self.wanted = torch.randn(SIZE, WIDTH, generator=random)

    def forward(self, batch: Tensor) -> dict[str, Tensor]:
        return {"loss": ((self.table + self.bias[:, None] - batch.sum() * self.wanted) ** 2).sum()}


def batches() -> Tensor:
    return torch.randn(STEPS, 1, 4, generator=torch.Generator().manual_seed(2))


def trained(factor: float, l2_to_init: list[float] | None, steps: int = STEPS) -> tuple[Squares, PlainEngine]:
    """The module after some steps; without l2_to_init, rows are trained as all others."""
    module = Squares()
    updates = []
    if l2_to_init is not None:
        tables, rows = (module.table, module.bias), torch.tensor(ROWS)
        updates = [
            RowUpdates.of(table, rows, torch.full((len(rows),), factor), torch.tensor(l2_to_init)) for table in tables
        ]
    engine = PlainEngine(module, SETTINGS, torch.device("cpu"), ParameterRates.of(SETTINGS, [module.table]), updates)
    for i, batch in enumerate(batches()[:steps]):
        engine.accumulate(batch, {"loss": 1.0}, last=True)
        engine.step(RATE / (i + 1))
    return module, engine


def reference(factor: float, l2_to_init: list[float]) -> tuple[np.ndarray, np.ndarray]:
    """AdamW without weight decay (Loshchilov and Hutter 2019, algorithm 2), then the rows; in double precision."""
    module = Squares()
    values = [module.table.detach().numpy().astype(np.float64), module.bias.detach().numpy().astype(np.float64)]
    wanted, starts = module.wanted.numpy().astype(np.float64), [value.copy() for value in values]
    first, second = ([np.zeros_like(value) for value in values] for _ in range(2))
    beta1, beta2, epsilon = SETTINGS.adam_beta1, SETTINGS.adam_beta2, SETTINGS.adam_epsilon
    for step, batch in enumerate(batches().numpy().astype(np.float64), start=1):
        error = 2 * (values[0] + values[1][:, None] - batch.sum() * wanted)
        for i, (gradient, group) in enumerate(((error, 3.0), (error.sum(axis=1), 1.0))):
            rate = group * RATE / step
            first[i] = beta1 * first[i] + (1 - beta1) * gradient
            second[i] = beta2 * second[i] + (1 - beta2) * gradient**2
            root = np.sqrt(second[i] / (1 - beta2**step)) + epsilon
            update = -rate * (first[i] / (1 - beta1**step)) / root
            after = values[i] + update
            for row, strength in zip(ROWS, l2_to_init, strict=True):
                drawn = min(1.0, rate * strength) * (starts[i][row] - values[i][row])
                after[row] = values[i][row] + factor * update[row] + drawn
            values[i] = after
    return values[0], values[1]


@pytest.mark.parametrize(
    ("factor", "l2_to_init"),
    [(0.25, [0.0, 0.0, 0.0]), (1.0, [8.0, 3.0, 0.5]), (0.5, [0.0, 2.0, 1e6]), (0.0, [1.0, 0.0, 2.0])],
)
def test_rows_move_as_they_do_in_numpy(factor: float, l2_to_init: list[float]) -> None:
    module, _ = trained(factor, l2_to_init)
    table, bias = reference(factor, l2_to_init)
    np.testing.assert_allclose(module.table.detach().numpy(), table, rtol=1e-4, atol=1e-6)
    np.testing.assert_allclose(module.bias.detach().numpy(), bias, rtol=1e-4, atol=1e-6)


def test_a_full_factor_without_pull_changes_not_a_bit() -> None:
    module, engine = trained(1.0, [0.0, 0.0, 0.0])
    plain, plainly = trained(1.0, None)
    expected = plainly.state()
    assert all(torch.equal(tensor, expected[name]) for name, tensor in engine.state().items())
    assert torch.equal(module.table, plain.table)


def test_zero_freezes_rows_and_a_pull_keeps_them_near() -> None:
    start = Squares().table.detach()[ROWS]
    frozen, _ = trained(0.0, [0.0, 0.0, 0.0])
    assert torch.equal(frozen.table.detach()[ROWS], start)
    free, weak, strong = (trained(1.0, [l2_to_init] * 3)[0].table.detach()[ROWS] for l2_to_init in (0.0, 3.0, 9.0))
    distances = [(rows - start).norm(dim=1) for rows in (strong, weak, free)]
    assert (distances[0] < distances[1]).all() and (distances[1] < distances[2]).all()


def test_a_training_goes_on_from_its_state_to_the_bit() -> None:
    """The rows' beginning is given again, the rest is the engine's state."""
    whole, _ = trained(0.5, [4.0, 2.0, 1.0])
    _, stopped = trained(0.5, [4.0, 2.0, 1.0], steps=2)
    state = {name: tensor.clone() for name, tensor in stopped.state().items()}
    resumed, engine = trained(0.5, [4.0, 2.0, 1.0], steps=0)
    engine.load_state(state, 2)
    for i, batch in enumerate(batches()[2:], start=2):
        engine.accumulate(batch, {"loss": 1.0}, last=True)
        engine.step(RATE / (i + 1))
    assert torch.equal(resumed.table, whole.table) and torch.equal(resumed.bias, whole.bias)


def test_a_frozen_table_stays_as_it_is() -> None:
    module = Squares()
    module.table.requires_grad_(False)
    before = module.table.clone()
    update = RowUpdates.of(module.table, torch.tensor(ROWS), torch.full((3,), 0.5), torch.ones(3))
    engine = PlainEngine(module, SETTINGS, torch.device("cpu"), ParameterRates.of(SETTINGS, [module.table]), [update])
    engine.accumulate(batches()[0], {"loss": 1.0}, last=True)  # type: ignore[arg-type]
    engine.step(RATE)
    assert torch.equal(module.table, before)
