"""Streams of documents, and what a model remembers of them: which memory it is, kills, several workers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file
from torch import Tensor

from engine_runs import run_workers
from killed_training import trained_weights
from permuted import documents, objective
from subgraft.config.training import PretrainSettings
from subgraft.contrib.xlnet.permutation import PermutationObjective, StreamedPermutation
from subgraft.data.text.corpus import Corpus
from subgraft.modeling.families import family_of
from subgraft.training.checkpoint import Checkpoints
from subgraft.training.objectives.compute.embedding_view import IGNORED, ModelEmbeddings
from subgraft.training.parameter_groups import Layers
from subgraft.training.schedule import MixedPlan, data_plan
from subgraft.training.stream_memory import StreamMemory
from subgraft.training.streams import NO_BLOCK, StreamPlan
from toys import xlnet
from watched import KilledError

MEMORY: dict[str, Any] = {"memory_tokens": 12}
SETTINGS: dict[str, Any] = {
    "max_steps": 8,
    "batch_size": 160,
    "max_length": 40,
    "learning_rate": 0.01,
    "warmup_steps": 2,
}


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Corpus:
    return documents(tmp_path_factory.mktemp("documents"), 10, 12)


def streamed(corpus: Corpus, model: Any = None, **settings: Any) -> StreamedPermutation:
    made = objective(corpus, {**MEMORY, **settings}, model)
    assert isinstance(made, StreamedPermutation)
    return made


# Plans.


def plan(sizes: list[int], width: int, backwards: bool = False) -> StreamPlan:
    starts = np.concatenate([[0], np.cumsum(sizes)])
    back = np.full(len(sizes), backwards)
    return StreamPlan(np.full(starts[-1], 9), starts, width, 5, lambda epoch: back)


@pytest.mark.parametrize("backwards", [False, True])
def test_a_document_is_read_in_one_stream_block_after_block(backwards: bool) -> None:
    sizes = [3, 1, 7, 2, 2, 5, 1, 4]
    made = plan(sizes, 3, backwards)
    orders = set()
    for epoch in range(4):
        batches, streams = made.epoch(epoch), made.streams(epoch)
        assert sorted(np.concatenate(batches).tolist()) == list(range(sum(sizes)))
        assert max(map(len, batches)) == 3 and [len(batch) for batch in batches] == sorted(map(len, batches))[::-1]
        orders.add(tuple(batches[0].tolist()))
        step = {int(block): at for at, batch in enumerate(batches) for block in batch}
        for batch in batches:
            assert len({*streams[batch].tolist()}) == len(batch), "a stream has one block in a batch"
            for block, before in zip(batch.tolist(), made.before(batch, epoch).tolist(), strict=True):
                first = block in (made.starts[1:] - 1 if backwards else made.starts)
                assert (before == NO_BLOCK) == first
                if before != NO_BLOCK:
                    assert before == (block + 1 if backwards else block - 1)
                    assert step[before] == step[block] - 1 and streams[before] == streams[block]
    assert len(orders) > 1


def test_streams_take_part_in_a_mixture_in_their_order(corpus: Corpus) -> None:
    made, other = streamed(corpus), objective(corpus)
    settings = PretrainSettings(**SETTINGS)
    assert data_plan(made, settings, 3) is made.plan
    assert not isinstance(data_plan(other, settings, 3), StreamPlan)

    class Both:
        parts, weights, from_steps = (made, other), (1.0, 1.0), None
        lengths = np.concatenate([made.lengths, other.lengths])

        def batch(self, indices: np.ndarray, epoch: int) -> Any: ...

    mixed = data_plan(Both(), settings, 3)
    assert isinstance(mixed, MixedPlan)
    own = [batch.tolist() for batch in mixed.epoch(1) if batch[0] < len(made.lengths)]
    assert own == [batch.tolist() for batch in made.plan.epoch(1)[: len(own)]] and own


# Memory.


def test_a_memory_has_the_latest_states_of_its_stream() -> None:
    """Appended piece by piece, and cut at the front."""
    memory, rng = StreamMemory(2, 1, 5, 1), np.random.default_rng(0)
    wanted: list[list[float]] = [[], []]
    for block in range(6):
        states, carried = torch.zeros(1, 2, 7, 1), torch.full((2, 5), -1)
        before = torch.full((2,), block - 1 if block else NO_BLOCK)
        for row in (0, 1):
            count = int(rng.integers(0, 6))
            places = sorted(rng.permutation(7)[:count].tolist())
            new = rng.normal(size=count).astype(np.float32)
            states[0, row, places, 0] = torch.from_numpy(new)
            carried[row, 5 - count :] = torch.tensor(places)
            wanted[row] = [*wanted[row], *new.tolist()][-5:]
        memory.keep(torch.tensor([0, 1]), before, torch.full((2,), block), states, carried)
        recalled = memory.recall(torch.tensor([1, 0]), torch.full((2,), block))
        assert recalled is not None
        for row, stream in ((0, 1), (1, 0)):
            count = int(recalled.filled[row])
            assert recalled.states[0, 5 - count :, row, 0].tolist() == wanted[stream]
    assert memory.recall(torch.tensor([0, 1]), torch.tensor([3, NO_BLOCK])) is None, "another block, and a first one"


def _losses(made: StreamedPermutation, changed: int | None = None) -> dict[int, float]:
    """The loss of each block of an epoch; `changed`: a block whose text is another."""
    loss, losses = made.loss(0.0).eval(), dict[int, float]()
    for indices in made.plan.epoch(0):
        batch = made.batch(indices, 0)
        if changed in indices.tolist():
            text = batch.input_ids[indices.tolist().index(changed)]
            text[:6] = (text[:6] + 7) % 90 + 5
        states = loss.states(batch, _embeddings(made))
        each = made.bundle.model.lm_loss(states.top).log_softmax(dim=-1)  # type: ignore[operator]
        counted = batch.labels != IGNORED
        gold = each.gather(2, batch.labels.clamp(min=0)[..., None])[..., 0] * counted
        losses |= dict(zip(indices.tolist(), gold.sum(dim=1).tolist(), strict=True))
        loss(batch)
    return losses


def _embeddings(made: PermutationObjective) -> Any:
    return ModelEmbeddings(made.bundle.model)


@pytest.mark.parametrize("settings", [{"bidirectional": False}, {"input": "segment-pair"}])
def test_later_blocks_of_the_same_document_remember_and_no_others(corpus: Corpus, settings: dict[str, Any]) -> None:
    made = streamed(corpus, **settings)
    document = int(np.argmax(np.diff(made.blocks.starts)))
    first, end = made.blocks.starts[document : document + 2].tolist()
    assert end - first > 4
    middle, back = first + 2, bool(made.blocks.backwards(0)[document])
    before, after = _losses(made), _losses(streamed(corpus, **settings), changed=middle)
    moved = {block for block, value in before.items() if abs(value - after[block]) > 1e-4}
    later = {middle - 1, middle - 2} if back else {middle + 1, middle + 2}
    assert middle in moved and moved - {middle} >= {middle - 1 if back else middle + 1}
    assert moved <= {*range(first, middle + 1)} if back else moved <= {*range(middle, end)}
    assert later & moved


def test_memory_is_the_content_of_the_block_before_without_gradient(corpus: Corpus) -> None:
    """Computed again by a pass over that block alone."""
    made = streamed(corpus, bidirectional=False)
    loss = made.loss(0.0).eval()
    first, second = made.plan.epoch(0)[:2]
    loss(made.batch(first, 0))
    batch = made.batch(second, 0)
    recalled = made.memory.recall(batch.streams, batch.before)
    assert recalled is not None and not recalled.states.requires_grad
    alone = objective(corpus, {"bidirectional": False})
    checked = 0
    for row, (before, count) in enumerate(zip(batch.before.tolist(), recalled.filled.tolist(), strict=True)):
        if before == NO_BLOCK:
            assert count == 0
            continue
        states = alone.loss(0.0).eval().states(alone.batch(np.array([before]), 0), _embeddings(made)).streams.below
        text = alone.example(before, 0).text[-12:]
        torch.testing.assert_close(recalled.states[:, 12 - count :, row], states[:, 0, text], rtol=1e-4, atol=1e-5)
        assert count == len(text)
        checked += 1
    assert checked > 1


# Trainings.


def _train(
    place: Path, corpus: Corpus, die_at: int | None = None, model: Any = None, **training: Any
) -> dict[str, Tensor]:
    """Weights after a training, with dropout unless the model has none, or KilledError at a step."""
    made = streamed(corpus, model or xlnet())
    module, chosen = made.loss(0.1), PretrainSettings(**{**SETTINGS, **training})
    return trained_weights(place, module, made, chosen, made.memory, die_at)


@pytest.mark.parametrize("die_at", [2, 5])
def test_a_training_killed_inside_a_stream_ends_with_the_same_bytes(
    corpus: Corpus, tmp_path: Path, die_at: int
) -> None:
    straight = _train(tmp_path / "straight", corpus)
    for when in (die_at, die_at + 1):
        with pytest.raises(KilledError):
            _train(tmp_path / "killed", corpus, when)
    resumed = _train(tmp_path / "killed", corpus)
    assert all(torch.equal(each, resumed[name]) for name, each in straight.items())


def test_what_is_remembered_is_part_of_the_checkpoint(corpus: Corpus, tmp_path: Path) -> None:
    """Without it the same training ends with other weights, so the test above can fail."""
    straight = _train(tmp_path / "straight", corpus)
    with pytest.raises(KilledError):
        _train(tmp_path / "killed", corpus, 4)
    checkpoints = Checkpoints(tmp_path / "killed")
    latest = checkpoints.latest()
    assert latest is not None
    emptied = {
        **latest.tensors,
        "preparation.memory_filled": torch.zeros_like(latest.tensors["preparation.memory_filled"]),
    }
    checkpoints.clear()
    (tmp_path / "killed").mkdir()
    Checkpoints(tmp_path / "killed").save(latest.step, emptied, latest.state)
    resumed = _train(tmp_path / "killed", corpus)
    assert any(not torch.equal(each, resumed[name]) for name, each in straight.items())


def test_micro_batches_change_nothing_but_rounding(corpus: Corpus, tmp_path: Path) -> None:
    still = [xlnet(dropout=0.0) for _ in range(2)]
    whole = _train(tmp_path / "whole", corpus, model=still[0])
    parts = _train(tmp_path / "parts", corpus, model=still[1], micro_batch_size=60)
    for name, tensor in whole.items():
        torch.testing.assert_close(parts[name], tensor, rtol=1e-2, atol=1e-3, msg=name)


@pytest.mark.slow
def test_two_workers_train_as_one_does(tmp_path: Path) -> None:
    """Rows of a stream go from worker to worker, since micro-batches are cut by length."""
    losses = run_workers("plain", 1, tmp_path / "one", task="permuted")
    together = run_workers("plain", 2, tmp_path / "two", task="permuted")
    assert together == pytest.approx(losses, rel=1e-4)
    weights, expected = (load_file(tmp_path / run / "module.safetensors") for run in ("two", "one"))
    for name, tensor in expected.items():
        # Adam moves a weight whose gradient is as small as rounding by as much as any other.
        torch.testing.assert_close(weights[name], tensor, rtol=1e-2, atol=3e-3, msg=name)


@pytest.mark.slow
@pytest.mark.parametrize("stop", [3])
def test_workers_that_die_and_begin_again_end_with_the_same_bytes(tmp_path: Path, stop: int) -> None:
    run_workers("plain", 2, tmp_path / "straight", task="permuted")
    run_workers("plain", 2, tmp_path / "died", stop, task="permuted")
    run_workers("plain", 2, tmp_path / "died", task="permuted")
    ends = [(tmp_path / run / "module.safetensors").read_bytes() for run in ("straight", "died")]
    assert ends[0] == ends[1]


@pytest.mark.slow
def test_deepspeed_shares_the_optimizers_state_and_trains_as_one_worker_does(tmp_path: Path) -> None:
    losses = run_workers("plain", 1, tmp_path / "one", task="permuted")
    assert run_workers("zero2", 2, tmp_path / "zero", task="permuted") == pytest.approx(losses, rel=1e-3)


def test_layers_have_rates_of_their_own_and_the_querys_embedding_that_of_the_lowest() -> None:
    model = xlnet()
    layers = Layers.of(name for name, _ in model.named_parameters())
    depth = {name: layers.below_top(name) for name, _ in model.named_parameters()}
    assert depth["transformer.mask_emb"] == depth["transformer.word_embedding.weight"] == 2
    assert depth["transformer.layer.0.rel_attn.seg_embed"] == 1 and depth["lm_loss.bias"] == 0
    assert family_of(model).layers(model.config.to_dict(), "encoder") == 2
