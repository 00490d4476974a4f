"""One plain worker against several, and against every ZeRO stage: the same training within float tolerance."""

from __future__ import annotations

import json
from pathlib import Path
from typing import get_args

import pytest
import torch
from safetensors.torch import load_file

from engine_runs import STEPS, run_workers
from subgraft.modeling.conditioning.variants.registry import VariantName


@pytest.fixture(scope="module")
def alone(tmp_path_factory: pytest.TempPathFactory) -> tuple[dict[int, float], dict[str, torch.Tensor]]:
    out = tmp_path_factory.mktemp("alone")
    return run_workers("plain", 1, out), load_file(out / "final.safetensors")


@pytest.mark.parametrize(
    ("kind", "workers"),
    [
        pytest.param("plain", 2, marks=pytest.mark.slow),
        ("zero2", 2),
        pytest.param("zero0", 2, marks=pytest.mark.slow),
        pytest.param("zero1", 2, marks=pytest.mark.slow),
        pytest.param("zero3", 2, marks=pytest.mark.slow),
        pytest.param("zero2", 1, marks=pytest.mark.slow),
        pytest.param("zero1-optimizer", 2, marks=pytest.mark.slow),
        pytest.param("zero2-optimizer", 1, marks=pytest.mark.slow),
        pytest.param("zero3-optimizer", 2, marks=pytest.mark.slow),
        pytest.param("zero3-parameters", 2, marks=pytest.mark.slow),
    ],
)
def test_workers_and_zero_stages_agree_with_one_plain_worker(
    tmp_path: Path, alone: tuple[dict[int, float], dict[str, torch.Tensor]], kind: str, workers: int
) -> None:
    losses, weights = alone
    losses_of_workers = run_workers(kind, workers, tmp_path)
    assert losses_of_workers == pytest.approx(losses, rel=1e-4)
    final = load_file(tmp_path / "final.safetensors")
    for name, tensor in weights.items():
        # The softmax does not feel the bias of keys: its gradient is rounding noise, which Adam makes into steps.
        if name.endswith("k_proj.bias") or not name.startswith("parameter."):
            continue
        torch.testing.assert_close(final[name].reshape(tensor.shape), tensor, rtol=1e-2, atol=2e-4, msg=name)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("sharded", "between"),
    [
        ("zero0", "plain"),
        ("zero1", "plain"),
        ("zero2", "plain"),
        ("zero3", "plain"),
        ("zero3-parameters", "plain"),
        ("zero2", "zero2"),
        ("zero3", "zero3"),
    ],
)
def test_a_checkpoint_goes_on_under_another_number_of_workers_and_engine(
    tmp_path: Path, alone: tuple[dict[int, float], dict[str, torch.Tensor]], sharded: str, between: str
) -> None:
    """Two steps on two ZeRO workers, two more on one worker, plain or ZeRO, the last two on two again."""
    losses, _ = alone
    resumed: dict[int, float] = {}
    for steps, (kind, workers) in zip((2, 4, 6), ((sharded, 2), (between, 1), (sharded, 2)), strict=True):
        resumed |= run_workers(kind, workers, tmp_path, steps)
    assert resumed == pytest.approx(losses, rel=1e-4)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["zero0", "zero1", "zero2", "zero3", "zero2-optimizer", "zero3-parameters"])
def test_a_dry_batch_changes_no_weight(tmp_path: Path, kind: str) -> None:
    for task in ("pretraining", "pretraining-rehearsed"):
        run_workers(kind, 2, tmp_path / task, task=task)
    plain, rehearsed = (
        load_file(tmp_path / task / "final.safetensors") for task in ("pretraining", "pretraining-rehearsed")
    )
    assert plain.keys() == rehearsed.keys()
    assert all(torch.equal(tensor, rehearsed[name]) for name, tensor in plain.items())


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "task"), [("zero3", "generator"), ("plain", "generator-recomputed"), ("zero3", "generator-recomputed")]
)
def test_a_generator_is_trained_over_a_frozen_model_in_shards(tmp_path: Path, kind: str, task: str) -> None:
    """ZeRO 3 shards the frozen model, which is all there is to shard; with and without activation checkpointing."""
    alone = run_workers("plain", 1, tmp_path / "alone", task="generator")
    together = run_workers(kind, 2, tmp_path / "two", task=task)
    assert len(set(together.values())) == STEPS
    if kind == "zero3":
        assert json.loads((tmp_path / "two" / "held.json").read_text()) < 0.55
    assert together == pytest.approx(alone, rel=1e-4)
    weights, expected = (load_file(tmp_path / run / "final.safetensors") for run in ("two", "alone"))
    name = "parameter.generator.weight"
    assert expected[name].any()
    torch.testing.assert_close(weights[name], expected[name], rtol=1e-3, atol=1e-5)


_SOURCED = [
    pytest.param(variant, kind, marks=[] if (variant, kind) == ("pseudo-self", "zero2") else pytest.mark.slow)
    for variant in get_args(VariantName)
    for kind in ("plain", "zero2", "zero3", "zero3-parameters")
]


@pytest.mark.slow
@pytest.mark.parametrize(("variant", "kind"), _SOURCED)
def test_a_language_model_with_a_source_is_trained_by_two_workers(tmp_path: Path, variant: str, kind: str) -> None:
    """Also where its language model is frozen; sources of one to four rows are padded otherwise by each worker."""
    alone = run_workers("plain", 1, tmp_path / "alone", task=f"sourced-{variant}")
    together = run_workers(kind, 2, tmp_path / "two", task=f"sourced-{variant}")
    assert len(set(together.values())) == STEPS
    assert together == pytest.approx(alone, rel=1e-4)
