"""Several tasks at once: shares of batches, heads that only their own batches move, one body, and saved heads."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file
from transformers import PreTrainedModel

from engine_runs import run_workers
from labelled import ENGLISH
from several_tasks import SIZES, Several, settings
from subgraft.base.errors import UserError
from subgraft.modeling.further_heads import HEADS
from subgraft.training.checkpoint import Checkpoints
from subgraft.training.engine import PlainEngine
from subgraft.training.loop import Hooks, Trainer
from subgraft.training.schedule import MixedPlan, batch_plan, data_plan
from subgraft.training.understanding.inputs import TextEncoder
from subgraft.training.understanding.multitask import load_head, save_heads
from subgraft.training.understanding.objective import head_outputs, task_of
from toys import bert, gpt2, t5


def trainer(several: Several, place: Path, hooks: Hooks | None = None) -> Trainer:
    engine = PlainEngine(several.loss, several.training, torch.device("cpu"))
    return Trainer(
        several.loss,
        several.loss.weights,
        several.data,
        several.training,
        engine,
        Checkpoints(place),
        seed=3,
        checkpoint_seconds=1e-9,
        hooks=hooks,
    )


def test_an_epoch_has_every_example_of_every_task_once_in_batches_of_one_task(tmp_path: Path) -> None:
    several = Several(tmp_path, settings())
    plan = data_plan(several.data, several.training, 3)
    orders = []
    for epoch in range(2):
        batches = plan.epoch(epoch)
        assert sorted(np.concatenate(batches).tolist()) == list(range(sum(SIZES.values())))
        kinds = [several.data.batch(batch, epoch).kind for batch in batches]
        alone = {name: len(data_plan(part, several.training, 3).epoch(epoch)) for name, part in several.parts.items()}
        assert Counter(kinds) == alone and min(alone.values()) > 1, "in proportion to their batches, exactly"
        orders.append(kinds)
    assert orders[0] != orders[1]
    again = data_plan(several.data, several.training, 3).epoch(1)
    assert [batch.tolist() for batch in plan.epoch(1)] == [batch.tolist() for batch in again]


def test_at_any_place_of_an_epoch_tasks_are_as_frequent_as_their_batches() -> None:
    """Pearson's χ² of the tasks of the first, middle and last batch over 600 epochs, against the 99.9 % quantile."""
    training, sizes = settings(batch_size=10), (100, 300, 200)
    plan = MixedPlan([batch_plan(np.full(size, 10), training, 3) for size in sizes], None, 3)
    ends, epochs = np.cumsum(sizes), 600
    drawn = [
        [int(np.searchsorted(ends, batch[0], side="right")) for batch in plan.epoch(each)] for each in range(epochs)
    ]
    expected = epochs * np.array(sizes) / sum(sizes)
    for place in (0, sum(sizes) // 2, sum(sizes) - 1):
        counts = np.bincount([kinds[place] for kinds in drawn], minlength=3)
        assert float(((counts - expected) ** 2 / expected).sum()) < 13.8


@pytest.mark.parametrize("optimizer", [{"optimizer": "adamw", "weight_decay": 0.1}, {"optimizer": "adamax"}])
def test_a_step_moves_the_head_of_its_task_and_no_other(tmp_path: Path, optimizer: dict[str, float]) -> None:
    several = Several(tmp_path, settings(**optimizer))
    before = {name: {key: p.detach().clone() for key, p in head.items()} for name, head in several.heads.items()}
    moved = list[tuple[str, set[str]]]()

    def look(step: int, values: dict[str, float]) -> None:
        (task,) = (name for name in SIZES if f"train_{name}_loss" in values)
        now = several.heads
        changed = {name for name in now if any(not torch.equal(p, before[name][key]) for key, p in now[name].items())}
        moved.append((task, changed))
        before.update({name: {key: p.detach().clone() for key, p in head.items()} for name, head in now.items()})

    run = trainer(several, tmp_path / "checkpoints", Hooks(metrics=look))  # type: ignore[arg-type]
    run.probe_memory(run.largest_batch())
    run.run()
    assert {task for task, _ in moved} == set(SIZES)
    assert all(changed == {task} for task, changed in moved)


@pytest.mark.slow
@pytest.mark.parametrize("optimizer", ["adamw", "adamax"])
def test_two_workers_move_the_same_heads_as_one(tmp_path: Path, optimizer: str) -> None:
    task = f"tasks-{optimizer}"
    losses = run_workers("plain", 1, tmp_path / "one", task=task)
    assert run_workers("plain", 2, tmp_path / "two", task=task) == pytest.approx(losses, rel=1e-4)
    expected, final = (load_file(tmp_path / run / "final.safetensors") for run in ("one", "two"))
    fewer = {name for name in expected if name.startswith("updates.")}
    assert fewer and expected.keys() == final.keys() and all(torch.equal(final[name], expected[name]) for name in fewer)
    moves = [
        json.loads((tmp_path / run).read_text()) for run in ("one/moved-0.json", "two/moved-0.json", "two/moved-1.json")
    ]
    assert moves[0] == moves[1] == moves[2] and len({task for task, _ in moves[0]}) > 1
    assert all(changed == [task] for task, changed in moves[0])


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "workers"),
    [
        ("zero2", 2),
        *(
            pytest.param(f"zero{stage}", workers, marks=pytest.mark.slow)
            for stage in range(3)
            for workers in (1, 2)
            if (stage, workers) != (2, 2)
        ),
    ],
)
def test_zero_moves_the_same_heads_by_as_much_and_goes_on_from_a_checkpoint(
    tmp_path: Path, kind: str, workers: int
) -> None:
    """With weight decay, which would move every head in every step."""
    losses = run_workers("plain", 1, tmp_path / "one", task="tasks-adamw")
    resumed = run_workers(kind, workers, tmp_path / "two", 3, task="tasks-adamw")
    resumed |= run_workers(kind, workers, tmp_path / "two", task="tasks-adamw")
    assert resumed == pytest.approx(losses, rel=1e-4)
    expected, final = (load_file(tmp_path / run / "final.safetensors") for run in ("one", "two"))
    fewer = {name for name in expected if name.startswith("updates.")}
    assert fewer and expected.keys() == final.keys() and all(torch.equal(final[name], expected[name]) for name in fewer)
    for name, tensor in expected.items():
        # A softmax over places does not feel what is added to all: the gradient is noise, which Adam makes into steps.
        if not name.endswith(("key.bias", "qa_outputs.bias", "layer.0.output.LayerNorm.bias")):
            torch.testing.assert_close(final[name].reshape(tensor.shape), tensor, rtol=1e-2, atol=2e-4, msg=name)


def test_a_training_from_a_checkpoint_ends_with_the_same_bytes(tmp_path: Path) -> None:
    whole, killed, resumed = (Several(tmp_path / name, settings(weight_decay=0.1)) for name in ("a", "b", "c"))
    trainer(whole, tmp_path / "whole").run()

    def die(step: int) -> None:
        if step == 7:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        trainer(killed, tmp_path / "broken", Hooks(before_update=die)).run()
    trainer(resumed, tmp_path / "broken").run()
    for name, parameter in whole.loss.state_dict().items():
        assert torch.equal(parameter, resumed.loss.state_dict()[name]), name
    assert not torch.equal(whole.loss.model.classifier.weight, killed.loss.model.classifier.weight)  # type: ignore[union-attr,arg-type]


@pytest.mark.parametrize("model", [bert, gpt2, t5])
def test_tasks_share_exactly_what_is_pretrained(tmp_path: Path, model: Callable[[], PreTrainedModel]) -> None:
    tasks = {"tagging": 10, "classification": 10, "span-extraction": 10, "multiple-choice": 10}
    several = Several(tmp_path, settings(), tasks, model)
    places = Counter(p.data_ptr() for p in several.loss.parameters())
    assert set(places.values()) == {1}, "no two parameters lie in one place"
    assert all(several.heads.values())
    new = sum(len(head) for head in several.heads.values())
    assert len(places) == len(list(model().base_model.parameters())) + new


def test_heads_of_other_tasks_are_saved_and_loaded(tmp_path: Path) -> None:
    tasks = {"classification": 30, "span-extraction": 30, "tagging": 30, "multiple-choice": 20, "regression": 30}
    several = Several(tmp_path, settings(epochs=1), tasks)
    trainer(several, tmp_path / "checkpoints").run()
    out = tmp_path / "model"
    out.mkdir()
    own, *others = tasks
    several.bundles[own].save(out)
    save_heads(several.bundles, out)
    for name in others:
        loaded, task = load_head(out, name), task_of(several.tasks[name], several.corpora[name])
        assert type(loaded.model) is type(several.bundles[name].model)
        encoder = TextEncoder.of(loaded, ENGLISH)
        split = task.split(several.corpora[name], "dev", encoder)
        one, other = (
            head_outputs(each.model, task, split, encoder.padding) for each in (loaded, several.bundles[name])
        )
        assert one.nats == other.nats
    with pytest.raises(UserError, match="no head of 'unknown'"):
        load_head(out, "unknown")
    (out / HEADS).unlink()
    with pytest.raises(UserError, match="was not trained on several tasks"):
        load_head(out, "tagging")
