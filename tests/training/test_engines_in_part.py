"""Engines where not all is trained, or not all by every batch: the same results whatever the engine and the workers."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from engine_runs import STEPS, run_workers
from toys import SHAPE, build_marian, english_tokenizer, german_tokenizer


@pytest.fixture(scope="module")
def rare(tmp_path_factory: pytest.TempPathFactory) -> tuple[dict[int, float], dict[str, torch.Tensor]]:
    out = tmp_path_factory.mktemp("rare")
    return run_workers("plain", 1, out, task="generator-rare"), load_file(out / "final.safetensors")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "workers"),
    [("plain", 2), ("zero2", 2), ("zero2", 1), ("zero0", 2), ("zero1", 2), ("zero3", 2)],
)
def test_a_generator_is_trained_where_a_worker_has_no_new_token_or_nothing_at_all(
    tmp_path: Path, rare: tuple[dict[int, float], dict[str, torch.Tensor]], kind: str, workers: int
) -> None:
    losses, weights = rare
    losses_of_workers = run_workers(kind, workers, tmp_path, task="generator-rare")
    new = [json.loads((tmp_path / f"new-{rank}.json").read_text()) for rank in range(workers)]
    for counts in new:
        assert 0 in counts
        assert any(counts)
    assert losses_of_workers == pytest.approx(losses, rel=1e-4)
    final, name = load_file(tmp_path / "final.safetensors"), "parameter.generator.weight"
    assert weights[name].any()
    torch.testing.assert_close(final[name], weights[name], rtol=1e-3, atol=1e-5)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["zero2", "zero0", "zero1", "zero3"])
def test_a_network_is_trained_alike_by_every_engine(tmp_path: Path, kind: str) -> None:
    """By as many workers: the negatives of a micro-batch are drawn for its own sentences."""
    losses = run_workers("plain", 2, tmp_path / "plain", task="network")
    assert run_workers(kind, 2, tmp_path / kind, task="network") == pytest.approx(losses, rel=1e-4)
    plain, sharded = (load_file(tmp_path / name / "final.safetensors") for name in ("plain", kind))
    name = "parameter.generator.heads.input.weight"
    assert plain[name].any()
    torch.testing.assert_close(sharded[name], plain[name], rtol=1e-2, atol=1e-4)


@pytest.mark.parametrize(
    ("kind", "workers"),
    [
        ("plain", 1),
        *[pytest.param(kind, 2, marks=pytest.mark.slow) for kind in ("plain", "zero0", "zero1", "zero2", "zero3")],
    ],
)
def test_frozen_tables_stay_as_they_begin_and_the_rest_is_trained(tmp_path: Path, kind: str, workers: int) -> None:
    """Two steps, then four more from the checkpoint: as one plain worker does it, with no optimizer state of tables."""
    before = build_marian(english_tokenizer(), german_tokenizer(), seed=1, **(SHAPE | {"dropout": 0.0})).state_dict()
    run_workers(kind, workers, tmp_path, 2, task="pretraining-frozen")
    run_workers(kind, workers, tmp_path, task="pretraining-frozen")
    after, trained = load_file(tmp_path / "module.safetensors"), load_file(tmp_path / "final.safetensors")
    table, other = "model.decoder.embed_tokens.weight", "model.encoder.embed_tokens.weight"
    assert torch.equal(after[f"model.{table}"], before[table])
    assert torch.equal(after["model.lm_head.weight"], before["lm_head.weight"])
    assert not torch.equal(after[f"model.{other}"], before[other])
    assert f"exp_avg.model.{other}" in trained
    assert not [name for name in trained if table in name or "lm_head" in name]
    if workers > 1:
        alone = run_workers("plain", 1, tmp_path / "alone", task="pretraining-frozen")
        recorded = json.loads((tmp_path / f"losses-{STEPS}.json").read_text())
        assert {int(step): loss for step, loss in recorded.items()} == pytest.approx(
            {step: alone[step] for step in map(int, recorded)}, rel=1e-4
        )


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "workers"),
    [(kind, 2) for kind in ("plain", "zero0", "zero1", "zero2", "zero3", "zero2-optimizer")],
)
def test_another_optimizer_with_rates_by_layer_is_the_same_under_every_engine(
    tmp_path: Path, kind: str, workers: int
) -> None:
    """Two steps, then four more from the checkpoint, against one plain worker without a break."""
    alone = run_workers("plain", 1, tmp_path / "alone", task="pretraining-adamax")
    together = run_workers(kind, workers, tmp_path / "two", 2, task="pretraining-adamax")
    together |= run_workers(kind, workers, tmp_path / "two", task="pretraining-adamax")
    assert together == pytest.approx(alone, rel=1e-4)


@pytest.mark.slow
@pytest.mark.parametrize(("kind", "workers"), [("plain", 1), ("plain", 2)])
def test_what_a_batch_does_not_use_stays_as_it_is_however_many_workers_there_are(
    tmp_path: Path, kind: str, workers: int
) -> None:
    """Heads of two objectives: trained in one go by one worker, and in two by as many; the second from a checkpoint."""
    losses = run_workers("plain", 1, tmp_path / "alone", task="heads")
    resumed = run_workers(kind, workers, tmp_path / "others", 3, task="heads")
    resumed |= run_workers(kind, workers, tmp_path / "others", task="heads")
    assert resumed == pytest.approx(losses, rel=1e-5)
    expected, final = (load_file(tmp_path / run / "final.safetensors") for run in ("alone", "others"))
    fewer = {name for name in expected if name.startswith("updates.")}
    assert fewer and len(fewer) < len([name for name in expected if name.startswith("parameter.")])
    assert expected.keys() == final.keys()
    for name, tensor in expected.items():
        torch.testing.assert_close(final[name], tensor, rtol=1e-5, atol=1e-6, msg=name)
