"""What is estimated of a training's memory is what its tensors take."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
from torch import Tensor
from transformers import MBartConfig

from engine_runs import run_workers
from subgraft.config.runtime import ZeroStage
from subgraft.modeling.families import Parameters, count_parameters
from subgraft.orchestration.estimates.memory_estimate import Dimensions, activation_bytes, checkpoint_bytes, state_bytes
from subgraft.training.objectives.compute.seq2seq import Seq2SeqBatch, top_states
from toys import SHAPE, build_marian, english_tokenizer, german_tokenizer

GIBIBYTE = 2**30


def test_the_stages_of_the_paper() -> None:
    """16 bytes for each parameter that is trained, of which the stages split 8 (and a copy), then 12, then all."""
    trained = Parameters(1000, 1000)
    assert [state_bytes(trained, stage, workers=1) for stage in (0, 1, 2, 3)] == [16000, 20000, 20000, 20000]
    assert [state_bytes(trained, stage, workers=4) for stage in (0, 1, 2, 3)] == [16000, 11000, 8000, 5000]
    # A generator over a frozen model: only stage 3 has anything to split.
    frozen = Parameters(1000, 10)
    assert state_bytes(frozen, 2, workers=2) > 4000 > state_bytes(frozen, 3, workers=2)
    assert state_bytes(trained, 1, 2, "optimizer") == 8000
    assert state_bytes(trained, 2, 2, "optimizer") == 4000
    assert state_bytes(trained, 3, 2, "parameters") == 0
    # A copy of parameters and moments, which stages 1 to 3 have in parts.
    assert [checkpoint_bytes(trained, stage, workers=4) for stage in (0, 1, 2, 3)] == [12000, 3000, 3000, 3000]
    assert checkpoint_bytes(frozen, 0, workers=4) == 120


@pytest.mark.parametrize(
    ("kind", "workers", "stage"),
    [
        ("plain", 1, 0),
        pytest.param("zero0", 2, 0, marks=pytest.mark.slow),
        pytest.param("zero1", 2, 1, marks=pytest.mark.slow),
        pytest.param("zero2", 2, 2, marks=pytest.mark.slow),
        pytest.param("zero3", 2, 3, marks=pytest.mark.slow),
    ],
)
def test_states_are_as_large_as_the_engines(tmp_path: Path, kind: str, workers: int, stage: ZeroStage) -> None:
    """Within 5 % of all tensors on each worker: padding of shards, and what DeepSpeed keeps besides."""
    run_workers(kind, workers, tmp_path, task="memory")
    shape = SHAPE | {"dropout": 0.0}
    model = build_marian(english_tokenizer(), german_tokenizer(), seed=1, **shape)
    estimated = state_bytes(count_parameters(model.config.to_dict()), stage, workers)
    for rank in range(workers):
        measured = json.loads((tmp_path / f"bytes-{rank}.json").read_text())
        assert measured == pytest.approx(estimated, rel=0.05)


def test_activations_are_about_as_large_as_what_autograd_keeps() -> None:
    """By half, or twice: the formula is for another family's layers."""
    shape = SHAPE | {"d_model": 64, "ffn_dim": 256, "encoder_layers": 3, "decoder_layers": 3}
    model = build_marian(english_tokenizer(), german_tokenizer(), seed=1, **shape).train()
    weights = {parameter.untyped_storage().data_ptr() for parameter in model.parameters()}
    saved: dict[int, int] = {}

    def keep(tensor: Tensor) -> Tensor:
        storage = tensor.untyped_storage()
        if storage.data_ptr() not in weights:
            saved[storage.data_ptr()] = storage.nbytes()
        return tensor

    ids = torch.full((16, 32), 5)
    with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
        states = top_states(model, Seq2SeqBatch(ids, torch.ones_like(ids), ids, ids))
    assert states.requires_grad
    dimensions = Dimensions.of(model.config.to_dict())
    estimated = activation_bytes(dimensions, ids.numel(), "fp32") - activation_bytes(dimensions, 0, "fp32")
    assert 0.5 < sum(saved.values()) / estimated < 2


def test_mbart_large() -> None:
    config = MBartConfig(vocab_size=250_027).to_dict()
    parameters, dimensions = count_parameters(config), Dimensions.of(config)
    assert state_bytes(parameters, 0, 1) / GIBIBYTE == pytest.approx(9.1, abs=0.1)
    whole = activation_bytes(dimensions, 4096, "bf16")
    assert whole > activation_bytes(dimensions, 4096, "bf16", checkpointing=True) > 2 * GIBIBYTE / 2


def test_the_loss_on_a_gpu_takes_larger_slices_but_no_more_than_a_batch() -> None:
    dimensions = Dimensions(width=64, embeddings=64, inner=128, encoder_layers=2, decoder_layers=0, vocabulary=50_000)
    few, many = (activation_bytes(dimensions, tokens, "bf16", on_gpu=True) for tokens in (8, 4096))
    assert few < activation_bytes(dimensions, 8, "bf16")
    assert many > activation_bytes(dimensions, 4096, "bf16") + GIBIBYTE // 2
