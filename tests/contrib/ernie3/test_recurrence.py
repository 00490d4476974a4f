"""ERNIE 3's recurrence in training: what blocks remember, and that kills and workers change nothing."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file
from torch import Tensor
from torch.nn.functional import cross_entropy

from engine_runs import assert_weights_agree, run_workers
from killed_training import trained_weights
from recurrent import BOTH, MEMORY, recurrent, recurrent_mixture, request, some_documents
from subgraft.base.errors import UserError
from subgraft.config.training import PretrainSettings
from subgraft.contrib.ernie3.branched import SegmentMemory
from subgraft.contrib.ernie3.recurrence import RecurrentObjective, branch_of
from subgraft.data.text.corpus import Corpus
from subgraft.training.checkpoint import Checkpoints
from subgraft.training.objectives.causal import CausalSettings
from subgraft.training.objectives.compute.embedding_view import IGNORED, ModelEmbeddings
from subgraft.training.objectives.compute.mixture import objectives_of
from subgraft.training.objectives.masked import MaskedSettings
from subgraft.training.streams import NO_BLOCK
from toys import SHAPE, build_bert, cased_tokenizer
from watched import KilledError

KINDS = ["masked", "causal"]


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Corpus:
    return some_documents(tmp_path_factory.mktemp("documents"))


def _losses(made: RecurrentObjective, changed: int | None = None) -> dict[int, float]:
    """The loss of each block of an epoch; `changed`: a block of which a token is another."""
    loss, losses = made.loss(0.0).eval(), dict[int, float]()
    for indices in made.plan.epoch(0):
        batch = made.batch(indices, 0)
        if changed in indices.tolist():
            batch.input_ids[indices.tolist().index(changed), 3] = 11
        states = loss.states(batch, _view(made))
        logits = made._model.cls(states.top)  # type: ignore[operator]
        each = cross_entropy(logits.transpose(1, 2), batch.labels, ignore_index=IGNORED, reduction="none").sum(dim=1)
        losses |= dict(zip(indices.tolist(), each.tolist(), strict=True))
        loss(batch)
    return losses


def _view(made: RecurrentObjective) -> Any:

    return ModelEmbeddings(made._model)


@pytest.mark.parametrize("kind", KINDS)
def test_later_blocks_of_the_same_document_remember_and_no_others(corpus: Corpus, kind: str) -> None:
    starts = recurrent(corpus, kind).plan.starts
    document = int(np.argmax(np.diff(starts)))
    first, end = starts[document : document + 2].tolist()
    assert end - first > 3
    middle = first + 1
    before, after = _losses(recurrent(corpus, kind)), _losses(recurrent(corpus, kind), changed=middle)
    moved = {block for block, value in before.items() if abs(value - after[block]) > 1e-6}
    # Through the same layer of each block, what is remembered reaches all later ones.
    assert moved == set(range(middle, end))


@pytest.mark.parametrize("kind", KINDS)
def test_a_block_reads_the_last_states_of_its_layers_in_the_block_before(corpus: Corpus, kind: str) -> None:
    """The model over each document alone, with its own memory, cut to the last tokens of text."""
    made = recurrent(corpus, kind)
    loss, body, summed, expected = made.loss(0.0).eval(), made._model.base_model, 0.0, 0.0
    for indices in made.plan.epoch(0):
        summed += loss(made.batch(indices, 0))["loss"].item()
    for begin, end in zip(made.plan.starts[:-1].tolist(), made.plan.starts[1:].tolist(), strict=True):
        memory: SegmentMemory | None = None
        for block in range(begin, end):
            batch = made.batch(np.array([block]), 0)
            outputs = body(batch.input_ids, branch=branch_of(kind == "causal"), memory=memory)
            logits = made._model.cls(outputs.last_hidden_state)  # type: ignore[operator]
            expected += cross_entropy(logits[0], batch.labels[0], ignore_index=IGNORED, reduction="sum").item()
            text = slice(0, -1) if kind == "causal" else slice(1, -1)
            own = [each[:, text] for each in outputs.memory.states]
            if memory is not None:
                own = [torch.cat([old, new], dim=1) for old, new in zip(memory.states, own, strict=True)]
            latest = tuple(each[:, -MEMORY:] for each in own)
            memory = SegmentMemory(latest, torch.ones(latest[0].shape[:2], dtype=torch.bool))
    assert summed == pytest.approx(expected, rel=1e-5)


def test_a_memory_is_at_most_as_long_as_the_text_before_and_has_no_gradient(corpus: Corpus) -> None:
    made = recurrent(corpus, "masked")
    loss = made.loss(0.0)
    seen = 0
    for indices in made.plan.epoch(0)[:3]:
        batch = made.batch(indices, 0)
        recalled = made.memory.recall(batch.streams, batch.before)
        for row, before in enumerate(batch.before.tolist()):
            if before != NO_BLOCK:
                assert recalled is not None and not recalled.states.requires_grad
                assert recalled.filled[row] == min(MEMORY, made.lengths[before] - 2) or recalled.filled[row] == MEMORY
                seen += 1
        loss(batch)["loss"].backward()
    assert seen
    others = [each.grad for name, each in made._model.named_parameters() if ".nlg." in name]
    assert others and all(each is None for each in others), "the other branch is not trained"


def test_blocks_of_a_causal_model_are_of_one_document_and_predict_each_token_once(corpus: Corpus) -> None:
    made, tokenizer = recurrent(corpus, "causal"), cased_tokenizer()
    (text,) = request(corpus).documents()
    end = tokenizer.special["eos"]
    for document, (begin, stop) in enumerate(zip(made.plan.starts[:-1], made.plan.starts[1:], strict=True)):
        read, predicted = list[int](), list[int]()
        for block in range(int(begin), int(stop)):
            batch = made.batch(np.array([block]), 0)
            assert made.lengths[block] == batch.input_ids.shape[1] <= 40
            read += batch.input_ids[0, :-1].tolist()
            predicted += batch.labels[0, :-1].tolist()
        lines = text.lines[int(text.starts[document]) : int(text.starts[document + 1])]
        whole = [end, *(token for ids in tokenizer.encode_batch(list(lines)) for token in [*ids, end])]
        assert read == whole[:-1] and predicted == whole[1:]


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        (MaskedSettings(input="doc-sentences", memory_tokens=500), "memory_tokens 500 is more than the .* tokens"),
        (CausalSettings(memory_tokens=2000), "memory_tokens 2000 is more than the .* tokens of the longest document"),
    ],
)
def test_a_memory_longer_than_every_document_is_refused(corpus: Corpus, settings: Any, said: str) -> None:
    with pytest.raises(UserError, match=said):
        objectives_of([settings], request(corpus))


def test_a_model_without_a_memory_is_refused(corpus: Corpus) -> None:
    bert = build_bert(cased_tokenizer(), seed=1, **SHAPE)
    with pytest.raises(UserError, match="a model of the family bert has no layers with a memory"):
        objectives_of(BOTH[:1], request(corpus, bert))


@pytest.mark.parametrize(
    ("kind", "settings"),
    [(MaskedSettings, {"memory_tokens": 4}), (CausalSettings, {"memory_tokens": 4, "packed": False})],
)
def test_only_blocks_of_documents_have_earlier_ones(kind: Any, settings: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="earlier blocks of a document"):
        kind(**settings)


# Trainings of both objectives in turn, with dropout.


def _train(place: Path, corpus: Corpus, die_at: int | None = None) -> dict[str, Tensor]:
    """Weights after a training, or KilledError at a step."""
    module, data = recurrent_mixture(corpus, dropout=0.1)
    chosen = PretrainSettings(max_steps=8, batch_size=160, max_length=40, learning_rate=0.01, warmup_steps=2)
    return trained_weights(place, module, data, chosen, data.memory, die_at)


def test_a_training_killed_inside_a_stream_ends_with_the_same_bytes(corpus: Corpus, tmp_path: Path) -> None:
    straight = _train(tmp_path / "straight", corpus)
    for when in (3, 6):
        with pytest.raises(KilledError):
            _train(tmp_path / "killed", corpus, when)
    resumed = _train(tmp_path / "killed", corpus)
    assert all(torch.equal(each, resumed[name]) for name, each in straight.items())


def test_both_memories_are_part_of_the_checkpoint(corpus: Corpus, tmp_path: Path) -> None:
    """Without either the same training ends with other weights, so the test above can fail."""
    straight = _train(tmp_path / "straight", corpus)
    for kind in KINDS:
        with pytest.raises(KilledError):
            _train(tmp_path / kind, corpus, 5)
        latest = Checkpoints(tmp_path / kind).latest()
        assert latest is not None
        name = f"preparation.{kind}.memory_filled"
        assert latest.tensors[name].any()
        emptied = {**latest.tensors, name: torch.zeros_like(latest.tensors[name])}
        Checkpoints(tmp_path / kind).clear()
        (tmp_path / kind).mkdir()
        Checkpoints(tmp_path / kind).save(latest.step, emptied, latest.state)
        resumed = _train(tmp_path / kind, corpus)
        assert any(not torch.equal(each, resumed[name]) for name, each in straight.items()), kind


@pytest.mark.slow
def test_two_workers_train_as_one_does(tmp_path: Path) -> None:
    losses = run_workers("plain", 1, tmp_path / "one", task="recurrent")
    together = run_workers("plain", 2, tmp_path / "two", task="recurrent")
    assert together == pytest.approx(losses, rel=1e-4)
    weights, expected = (load_file(tmp_path / run / "module.safetensors") for run in ("two", "one"))
    assert_weights_agree(weights, expected, rtol=1e-2, atol=5e-4)


@pytest.mark.slow
def test_deepspeed_shares_the_optimizers_state_and_trains_as_one_worker_does(tmp_path: Path) -> None:
    losses = run_workers("plain", 1, tmp_path / "one", task="recurrent")
    assert run_workers("zero2", 2, tmp_path / "zero", task="recurrent") == pytest.approx(losses, rel=1e-3)
