"""Gradients travel in buckets, are added up, and come about for what some worker has used alone."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
import torch.distributed as dist
from torch import nn

from subgraft.training import gradient_all_reduce
from subgraft.training.gradient_all_reduce import GradientAllReduce


@pytest.fixture(autouse=True)
def group(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A process group of this process alone, and buckets of a layer or two."""
    monkeypatch.setattr(gradient_all_reduce, "BUCKET_BYTES", 200)
    dist.init_process_group("gloo", init_method=f"file://{tmp_path / 'group'}", rank=0, world_size=1)
    yield
    dist.destroy_process_group()


def test_the_sums_of_one_worker_are_its_gradients() -> None:
    torch.manual_seed(1)
    layers = nn.ModuleList([nn.Linear(6, 6) for _ in range(5)])
    used_first, used_last, unused = [0, 1, 2], [0, 2, 3], layers[4]
    inputs = torch.randn(4, 6)

    def loss(places: list[int]) -> torch.Tensor:
        out = inputs
        for place in places:
            out = torch.tanh(layers[place](out))
        return out.square().sum()

    (loss(used_first) + loss(used_last)).backward()
    expected = [None if p.grad is None else p.grad.clone() for p in layers.parameters()]
    layers.zero_grad(set_to_none=True)

    sums = GradientAllReduce(list(layers.parameters()))
    for _ in range(2):  # and again at the next step
        loss(used_first).backward()
        with sums.sending():
            loss(used_last).backward()
        sums.wait()
        for parameter, wanted in zip(layers.parameters(), expected, strict=True):
            assert (parameter.grad is None) == (wanted is None)
            if wanted is not None:
                assert torch.allclose(parameter.grad, wanted, rtol=1e-6, atol=1e-7)  # type: ignore[arg-type]
        assert unused.weight.grad is None
        layers.zero_grad(set_to_none=True)


def test_buckets_leave_before_the_backward_pass_is_done() -> None:
    layers = nn.Sequential(*(nn.Linear(6, 6) for _ in range(4)))
    sums = GradientAllReduce(list(layers.parameters()))
    assert len(sums._buckets) == 4
    sent: list[int] = []
    first = next(layers.parameters())
    first.register_hook(lambda gradient: sent.append(sums._sent))
    with sums.sending():
        layers(torch.randn(3, 6)).sum().backward()
    sums.wait()
    assert sent == [3], "the three layers behind the first are on their way when its gradient is computed"
