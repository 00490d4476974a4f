"""Checkpoints of which each ZeRO worker writes its part: killed as they are written, and gone on with by others."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from engine_runs import run_workers
from subgraft.training.checkpoint import TENSORS, Checkpoints

Engine = tuple[str, int]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("first", "second", "third"),
    [
        (("zero2", 2), ("plain", 1), ("zero2", 2)),
        (("zero3", 2), ("zero1", 2), ("plain", 2)),
        (("zero1", 2), ("zero3", 3), ("zero2", 2)),
        (("zero3-parameters", 2), ("zero2", 1), ("zero3", 2)),
    ],
)
def test_killed_while_it_writes_another_engine_goes_on_to_the_same_losses(
    tmp_path: Path, first: Engine, second: Engine, third: Engine
) -> None:
    """Shards are published by the update after theirs at the earliest, before which the workers die."""
    losses = run_workers("plain", 1, tmp_path / "alone")
    place = tmp_path / "others"
    resumed = run_workers(*first, place, 2)
    resumed |= run_workers(*first, place, 4, background=True)
    (begun,) = (place / "checkpoints").glob(".writing-*")
    published = sorted((place / "checkpoints").glob("step-*"))
    assert len(published) == 2 and published[-1].name[-1] < begun.name[-1]
    for each in published:
        assert not (each / TENSORS).exists() and len(list(each.glob("*.safetensors"))) == first[1]
    before = Checkpoints(place / "checkpoints").latest()
    assert before is not None
    resumed |= run_workers(*second, place, 5, background=True)
    resumed |= run_workers(*third, place, background=True)
    assert resumed == pytest.approx(losses, rel=1e-4)
    last = Checkpoints(place / "checkpoints").latest()
    assert last is not None and (last.step, last.tensors.keys()) == (6, before.tensors.keys())
    assert not list((place / "checkpoints").glob(".*")), "nothing is left of the killed attempt"


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["zero1", "zero2", "zero3", "plain"])
def test_the_best_weights_are_kept_in_parts_and_are_whole_at_the_end(tmp_path: Path, kind: str) -> None:
    """Also where they come from a checkpoint: the second run begins after the step they are of."""
    run_workers(kind, 2, tmp_path / "two", 5, task="pretraining-selected")
    run_workers(kind, 2, tmp_path / "two", task="pretraining-selected")
    run_workers("plain", 1, tmp_path / "stopped", 3)
    of_step = Checkpoints(tmp_path / "stopped" / "checkpoints").latest()
    assert of_step is not None and of_step.step == 3
    whole = load_file(tmp_path / "two" / "module.safetensors")
    for name, tensor in of_step.tensors.items():
        kind_of, _, parameter = name.partition(".")
        if kind_of != "parameter" or name.endswith("k_proj.bias"):
            continue
        torch.testing.assert_close(whole[parameter], tensor, rtol=1e-2, atol=2e-4, msg=name)
