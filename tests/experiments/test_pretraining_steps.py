"""Systems start from weights of earlier steps of one pretraining, and the report draws a curve over them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from small_experiments import finish, finish_steps, perform_step, planned, tiny, written
from subgraft.base.errors import UserError
from subgraft.config.experiment import Experiment
from subgraft.config.loading import load
from subgraft.config.runtime import Runtime
from subgraft.orchestration.store.step import Step
from subgraft.orchestration.store.store import Store

CONFIG = tiny(
    pretrain="{epochs: 100, max_steps: 9, save_every: 3, batch_size: 500, precision: fp32, dev_sentences: 2, "
    "select: last, dropout_schedule: [{step: 4, dropout: 0.05}, {step: 7, dropout: 0.0}]}",
    finetune="{epochs: 1, max_steps: 2, batch_size: 500, precision: fp32, dev_sentences: 2}",
    systems="""
    - {name: three, vocabulary: upstream, pretraining_step: 3}
    - {name: six, vocabulary: upstream, pretraining_step: 6}
    - {name: all, vocabulary: upstream}
    """,
)


@pytest.mark.slow
def test_each_system_starts_from_the_weights_of_its_step(tmp_path: Path) -> None:
    """Equal to those of a pretraining that stops there, and a curve over the steps is drawn."""
    config = written(tmp_path, CONFIG)
    pipeline, store = finish(config)
    starts = {steps.system.name: steps.finetune.inputs["model"] for steps in pipeline.systems}
    weights = {name: load_file(store.path(step) / "model.safetensors") for name, step in starts.items()}
    for name, step in (("three", 3), ("six", 6)):
        stopped = planned(config, f"pretrain.stop_after={step}").models.pretrained
        expected = load_file(finish_steps([stopped], tmp_path).path(stopped) / "model.safetensors")
        assert all(torch.equal(weights[name][key], expected[key]) for key in expected)
    assert any(not torch.equal(weights["all"][key], weights["six"][key]) for key in weights["all"])
    records = [json.loads((store.path(starts[name]) / "record.json").read_text()) for name in ("three", "six")]
    assert [record["summary"]["step"] for record in records] == [3, 6]
    report = store.path(pipeline.report)
    assert (report / "plots" / "pretraining_steps.png").is_file() and "updates of pretraining" in (
        report / "report.md"
    ).read_text()


def test_weights_of_an_interrupted_pretraining_are_those_of_an_uninterrupted_one(tmp_path: Path) -> None:
    """It is stopped after its fifth update, and goes on from its checkpoint."""
    config = written(tmp_path, CONFIG)
    step = planned(config).models.pretrained
    finish_steps(list(step.inputs.values()), tmp_path)
    _interrupted(step, tmp_path, after=5)
    perform_step(step, tmp_path / "home", Runtime(checkpoint_seconds=0.001))
    uninterrupted = tmp_path / "other"
    uninterrupted.mkdir()
    store, whole = Store(tmp_path / "home"), finish_steps([step], uninterrupted)
    for saved in ("3", "6"):
        one, other = (load_file(each.path(step) / "steps" / saved / "model.safetensors") for each in (store, whole))
        assert all(torch.equal(one[key], other[key]) for key in one)
    assert sorted(path.name for path in (store.path(step) / "steps").iterdir()) == ["3", "6"]


def _interrupted(step: Step, place: Path, after: int) -> None:
    from subgraft.training.loop import Trainer

    update = Trainer._update
    done = 0

    def stopping(trainer: Trainer, *arguments: object) -> dict[str, float]:
        nonlocal done
        if done == after:
            raise KeyboardInterrupt
        done += 1
        return update(trainer, *arguments)  # type: ignore[arg-type]

    Trainer._update = stopping  # type: ignore[method-assign,assignment]
    try:
        with pytest.raises(KeyboardInterrupt):
            perform_step(step, place / "home", Runtime(checkpoint_seconds=0.001))
    finally:
        Trainer._update = update  # type: ignore[method-assign]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ("pretrain.save_every=null", "weights are not saved: write pretrain.save_every"),
        ("pretrain.save_every=2", "weights are saved every 2 updates"),
        ("pretrain.max_steps=6", "the pretraining ends after 6 updates"),
        (
            "systems.0={name: no, pretraining: none, pretraining_step: 3}",
            "the pretraining that all systems share",
        ),
    ],
)
def test_steps_whose_weights_are_not_saved_are_refused(tmp_path: Path, change: str, message: str) -> None:
    with pytest.raises(UserError, match=message):
        load(written(tmp_path, CONFIG), Experiment, [change])
