"""Trainings whose targets compete with their nearest tokens alone: what is looked at ahead, kills, several workers."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file
from torch import Tensor

from engine_runs import STEPS, assert_weights_agree, run_workers
from killed_training import trained_weights
from subgraft.config.training import NearestTargets, PretrainSettings
from subgraft.training.objectives.compute.distributed import Workers
from subgraft.training.objectives.compute.embedding_view import IGNORED
from subgraft.training.objectives.compute.masked import MaskedSentences
from subgraft.training.objectives.compute.single_stack import StackBatch, StackLoss
from subgraft.training.objectives.compute.target_sampling import NearestSampling, SampledLoss
from subgraft.training.objectives.masked import MaskedSettings
from subgraft.training.schedule import RampedPlan, batch_plan, upcoming_batches
from toys import SHAPE, build_bert, cased_tokenizer, english
from watched import KilledError

EVERY = 3


def _settings(**changes: Any) -> PretrainSettings:
    defaults = {"epochs": 3, "batch_size": 120, "learning_rate": 0.05, "warmup_steps": 5}
    return PretrainSettings(**(defaults | changes))


class _Seen(NearestSampling):
    """Keeps which targets were shown ahead, and at which steps."""

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self.shown: list[list[list[int]]] = []
        self.met: dict[int, list[int]] = {}

    def look_ahead(self, batches: Iterable[Any], workers: Workers) -> None:
        whole = list(batches)
        self.shown.append([_targets(batch) for batch in whole])
        super().look_ahead(whole, workers)

    def prepare(self, batches: Any, step: int, workers: Workers) -> Any:
        self.met[step] = [token for batch in batches for token in _targets(batch)]
        return super().prepare(batches, step, workers)


def _targets(batch: StackBatch) -> list[int]:
    return batch.labels[batch.labels != IGNORED].tolist()


def _train(place: Path, settings: PretrainSettings, die_at: int | None = None) -> tuple[dict[str, Tensor], _Seen]:
    model = build_bert(cased_tokenizer(), seed=1, **SHAPE)
    data = MaskedSentences(english(50), cased_tokenizer(), MaskedSettings(), max_length=40, seed=3)
    sampling = _Seen(NearestTargets(neighbours=2, rebuild_every=EVERY), model, 3)
    module = SampledLoss(StackLoss(model, 0.1))

    assert module.weights == {"loss": 1.0}

    def watch(values: Mapping[str, float]) -> None:
        assert 0 < values["candidates"] < len(cased_tokenizer())

    trained_weights(place, module, data, settings, sampling, die_at, watch)
    return dict(model.state_dict()), sampling


@pytest.mark.parametrize("changes", [{}, {"micro_batch_size": 40}, {"max_steps": 10}])
def test_what_is_shown_ahead_is_what_comes(tmp_path: Path, changes: dict[str, Any]) -> None:
    """Across epochs, and no further than the training goes."""
    _, sampling = _train(tmp_path, _settings(**changes))
    steps = sorted(sampling.met)
    assert steps == list(range(len(steps))) and len(steps) > 2 * EVERY
    assert [len(block) for block in sampling.shown] == [min(EVERY, len(steps) - at) for at in steps[::EVERY]]
    shown = [targets for block in sampling.shown for targets in block]
    assert [sorted(targets) for targets in shown] == [sorted(sampling.met[step]) for step in steps]


@pytest.mark.parametrize("die_at", [1, 2, 3, 4, 6, 7])
def test_a_resumed_training_is_the_uninterrupted_one(tmp_path: Path, die_at: int) -> None:
    """Neighbours are searched at the same steps, whenever it was killed: between them they come from the checkpoint."""
    straight, _ = _train(tmp_path / "straight", _settings())
    for when in (die_at, die_at + 1):
        with pytest.raises(KilledError):
            _train(tmp_path / "killed", _settings(), die_at=when)
    resumed, sampling = _train(tmp_path / "killed", _settings())
    assert all(torch.equal(tensor, resumed[name]) for name, tensor in straight.items())
    begun, steps = min(sampling.met), max(sampling.met) + 1
    assert begun == die_at
    assert len(sampling.shown) == len([step for step in range(begun, steps) if step % EVERY == 0])


def test_the_coming_batches_are_those_of_the_epochs_one_after_another() -> None:
    settings = _settings(epochs=3, batch_size=10)
    plan = batch_plan(np.ones(35, dtype=np.int64), settings, seed=1)
    assert isinstance(plan, RampedPlan)
    whole = [(batch.tolist(), epoch) for epoch in range(3) for batch in plan.epoch(epoch)]
    for step in range(len(whole)):
        at = (step // 4, step % 4)
        upcoming = [(batch.tolist(), epoch) for batch, epoch in upcoming_batches(plan, settings, at, step, 6)]
        assert upcoming == whole[step : step + 6]
    bounded = settings.model_copy(update={"max_steps": 7})
    assert len(list(upcoming_batches(plan, bounded, (1, 1), 5, 6))) == 2


@pytest.mark.slow
def test_two_workers_agree_on_candidates_and_train_as_one_does(tmp_path: Path) -> None:
    losses = run_workers("plain", 1, tmp_path / "one", task="sampled")
    together = run_workers("plain", 2, tmp_path / "two", task="sampled")
    assert together == pytest.approx(losses, rel=1e-4)
    first, second, alone = (
        json.loads((tmp_path / run / f"candidates-{rank}-{STEPS}.json").read_text())
        for run, rank in (("two", 0), ("two", 1), ("one", 0))
    )
    assert first == second == alone and len(first) == STEPS
    weights, expected = (load_file(tmp_path / run / "module.safetensors") for run in ("two", "one"))
    assert_weights_agree(weights, expected, rtol=1e-2, atol=2e-4)


@pytest.mark.slow
@pytest.mark.parametrize("stop", [2, pytest.param(5, marks=pytest.mark.slow)])
def test_workers_that_die_and_begin_again_end_with_the_same_bytes(tmp_path: Path, stop: int) -> None:
    """Before and after the step that searches neighbours again, with real processes that end abruptly."""
    run_workers("plain", 2, tmp_path / "straight", task="sampled")
    run_workers("plain", 2, tmp_path / "died", stop, task="sampled")
    run_workers("plain", 2, tmp_path / "died", task="sampled")
    ends = [(tmp_path / run / "module.safetensors").read_bytes() for run in ("straight", "died")]
    assert ends[0] == ends[1]


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["zero2", "zero3"])
def test_deepspeed_trains_on_the_same_candidates(tmp_path: Path, kind: str) -> None:
    losses = run_workers("plain", 1, tmp_path / "one", task="sampled")
    sharded = run_workers(kind, 2, tmp_path / "two", task="sampled")
    assert sharded == pytest.approx(losses, rel=1e-3)
