"""Stages of other lengths and batch sizes: what is read when, and kills at a change."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from killed_training import trained_weights
from recurrent import BOTH, branched, request, some_documents
from subgraft.config.training import PretrainSettings
from subgraft.data.text.corpus import Corpus
from subgraft.training.objectives.causal import CausalSettings
from subgraft.training.objectives.compute.mixture import MixedLoss
from subgraft.training.objectives.compute.stages import in_stages
from subgraft.training.objectives.masked import MaskedSettings
from subgraft.training.schedule import StagedPlan, data_plan, steps_of
from subgraft.training.stream_memory import memory_of
from watched import KilledError

SETTINGS: dict[str, Any] = {
    "max_steps": 12,
    "batch_size": 160,
    "max_length": 12,
    "length_schedule": [{"step": 4, "max_length": 20}, {"step": 9, "max_length": 40}],
    "learning_rate": 0.01,
    "warmup_steps": 2,
    "precision": "fp32",
}
# By step.
LENGTHS = [12] * 4 + [20] * 5 + [40] * 3
PLAIN = (MaskedSettings(input="doc-sentences"), CausalSettings())


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Corpus:
    return some_documents(tmp_path_factory.mktemp("documents"))


def _planned(plan: Any, steps: int) -> list[tuple[int, np.ndarray]]:
    """The epoch and the batch of each step."""
    taken, epoch = list[tuple[int, np.ndarray]](), 0
    while len(taken) < steps:
        taken += [(epoch, batch) for batch in plan.epoch(epoch, len(taken))]
        epoch += 1
    return taken[:steps]


@pytest.mark.parametrize("objectives", [PLAIN[:1], PLAIN[1:], PLAIN])
def test_examples_are_as_long_as_their_stage_says(corpus: Corpus, objectives: Any) -> None:
    settings = PretrainSettings(**SETTINGS)
    text = in_stages(objectives, settings, request(corpus, **SETTINGS))
    plan = data_plan(text.data, settings, 3)
    assert isinstance(plan, StagedPlan)
    longest = list[int]()
    for epoch, batch in _planned(plan, 12):
        made = text.data.batch(batch, epoch)
        assert len(batch) * made.shape[1] <= 160
        longest.append(made.shape[1])
    assert all(size <= length for size, length in zip(longest, LENGTHS, strict=True)), longest
    assert max(longest[:4]) > 8 and max(longest[4:9]) > 12 and max(longest[9:]) > 20, longest
    assert len(plan.lengths) == len(text.data.lengths) and plan.lengths.max() <= 40


def test_a_stage_reads_its_whole_text_before_it_repeats_it(corpus: Corpus) -> None:
    settings = PretrainSettings(**{**SETTINGS, "length_schedule": [{"step": 200, "max_length": 20}], "max_steps": 400})
    text = in_stages(PLAIN[:1], settings, request(corpus, **SETTINGS))
    plan = data_plan(text.data, settings, 3)
    first, size = plan.epoch(0, 0), len(text.data.stages[0][2].lengths)  # type: ignore[attr-defined]
    assert sorted(np.concatenate(first).tolist()) == list(range(size))
    cut = plan.epoch(5, 200 - 3)
    assert len(cut) == 3 and all(batch.max() < size for batch in cut)
    assert sorted(np.concatenate(plan.epoch(6, 200)).tolist()) == list(range(size, len(text.data.lengths)))
    by_epochs = settings.model_copy(update={"epochs": 2, "max_steps": None})
    assert steps_of(plan, by_epochs) == 2 * len(first)


def test_batches_of_several_objectives_grow(corpus: Corpus) -> None:
    settings = PretrainSettings(
        **{**SETTINGS, "length_schedule": [], "batch_size_schedule": [{"step": 5, "batch_size": 400}]}
    )
    text = in_stages(PLAIN, settings, request(corpus, **SETTINGS))
    sizes = [
        int(np.prod(text.data.batch(batch, epoch).shape))
        for epoch, batch in _planned(data_plan(text.data, settings, 3), 12)
    ]
    assert max(sizes[:5]) <= 160 < np.median(sizes[5:]) <= max(sizes) <= 400, sizes


def test_the_memory_serves_all_lengths(corpus: Corpus) -> None:
    settings = PretrainSettings(**SETTINGS)
    text = in_stages(BOTH, settings, request(corpus, **SETTINGS))
    for place, (kind, chosen) in enumerate(text.of_loss.items()):
        widths = [mixture.parts[place].plan.width for _, _, mixture in text.data.stages]  # type: ignore[attr-defined]
        assert chosen.plan.width == max(widths) > min(widths), kind  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        (
            {"length_schedule": [{"step": 5, "max_length": 20}, {"step": 5, "max_length": 30}]},
            "length_schedule must increase",
        ),
        ({"length_schedule": [{"step": 12, "max_length": 20}]}, "step 12 is not before the end, max_steps 12"),
    ],
)
def test_stages_are_in_order_and_before_the_end(settings: dict[str, Any], said: str) -> None:
    with pytest.raises(ValueError, match=said):
        PretrainSettings(**{**SETTINGS, **settings})


def _train(place: Path, corpus: Corpus, objectives: Any, die_at: int | None = None) -> dict[str, Tensor]:
    """Weights after a training, or KilledError at a step."""
    settings = PretrainSettings(**SETTINGS)
    asked = request(corpus, branched(dropout=0.1), **SETTINGS)
    text = in_stages(objectives, settings, asked)
    module = MixedLoss(asked.bundle.model, {kind: each.loss(0.1) for kind, each in text.of_loss.items()})
    return trained_weights(place, module, text.data, settings, memory_of(text.of_loss), die_at)


@pytest.mark.parametrize("objectives", [PLAIN, BOTH])
def test_a_training_killed_before_at_and_after_a_change_ends_with_the_same_bytes(
    corpus: Corpus, tmp_path: Path, objectives: Any
) -> None:
    straight = _train(tmp_path / "straight", corpus, objectives)
    for when in (4, 5, 9, 11):
        with pytest.raises(KilledError):
            _train(tmp_path / "killed", corpus, objectives, when)
    resumed = _train(tmp_path / "killed", corpus, objectives)
    assert all(torch.equal(each, resumed[name]) for name, each in straight.items())
