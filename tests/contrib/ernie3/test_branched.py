"""ERNIE 3: branches that do not train each other, and the recurrence of the same layer against a reference."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch.nn.functional import cross_entropy

from subgraft.base.errors import UserError
from subgraft.contrib.ernie3.branched import SegmentMemory
from subgraft.contrib.ernie3.settings import BranchedSettings
from subgraft.modeling.bundle import Bundle
from subgraft.modeling.exporting.transformers import export_transformers
from subgraft.modeling.families import FAMILIES, count_parameters
from subgraft.modeling.heads import with_head
from subgraft.training.objectives.compute.causal import CausalBatch
from subgraft.training.objectives.compute.embedding_view import IGNORED
from subgraft.training.objectives.compute.single_stack import StackBatch, StackLoss
from toys import cased_tokenizer

SIZES: dict[str, Any] = {
    "d_model": 16,
    "layers": 2,
    "attention_heads": 2,
    "ffn_dim": 24,
    "max_positions": 24,
    "branch_layers": 1,
    "branch_width": 8,
    "branch_heads": 4,
    "branch_ffn_dim": 12,
    "dropout": 0.0,
}
SEGMENTS = torch.randint(5, 90, (6, 2, 5), generator=torch.Generator().manual_seed(3))


def branched(seed: int = 1) -> Any:
    """A `BranchedForMaskedLM` with weights that are large enough to distinguish tokens and distances."""
    tokenizer = cased_tokenizer()
    model: Any = FAMILIES["branched"].build(BranchedSettings(**SIZES), tokenizer, tokenizer, seed)
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.2 * torch.randn(parameter.shape, generator=generator))
    return model.eval()


def _batch(kind: type[StackBatch]) -> StackBatch:
    ids, labels = SEGMENTS[0], torch.full_like(SEGMENTS[0], IGNORED)
    if kind is CausalBatch:
        labels[:, :-1] = ids[:, 1:]
    else:
        labels[:, 2] = 7
    return kind(ids, torch.ones_like(ids), labels)


@pytest.mark.parametrize(("kind", "own", "other"), [(StackBatch, "nlu", "nlg"), (CausalBatch, "nlg", "nlu")])
def test_the_loss_of_one_branch_leaves_the_other_without_a_gradient(
    kind: type[StackBatch], own: str, other: str
) -> None:
    model = branched()
    loss = StackLoss(model)(_batch(kind))["loss"]
    logits = model(_batch(kind).input_ids, branch=own).logits
    expected = cross_entropy(logits.flatten(0, 1), _batch(kind).labels.flatten(), ignore_index=IGNORED, reduction="sum")
    torch.testing.assert_close(loss, expected)
    loss.backward()
    for name, parameter in model.named_parameters():
        if f".{other}." in name:
            assert parameter.grad is None, name
        else:
            assert parameter.grad is not None, name
            assert parameter.grad.abs().sum() > 0 or name.endswith("key.bias"), name


def test_the_branch_that_writes_sees_no_later_token_and_the_other_sees_all() -> None:
    model, ids = branched().branched, SEGMENTS[0]
    changed = ids.clone()
    changed[:, 3] = 11
    for branch, sees in (("nlg", False), ("nlu", True)):
        before, after = (model(each, branch=branch).last_hidden_state for each in (ids, changed))
        assert torch.equal(before[:, :3], after[:, :3]) is not sees
        assert not torch.equal(before[:, 3:], after[:, 3:])


def test_padding_changes_nothing() -> None:
    model, ids = branched().branched, SEGMENTS[0]
    mask = torch.ones(2, 8, dtype=torch.long)
    mask[:, 5:] = 0
    padded = torch.nn.functional.pad(ids, (0, 3))
    for branch in ("nlu", "nlg"):
        short, long = (
            model(each, attention_mask=one, branch=branch) for each, one in ((ids, mask[:, :5]), (padded, mask))
        )
        torch.testing.assert_close(short.last_hidden_state, long.last_hidden_state[:, :5])
        following = [model(SEGMENTS[1], branch=branch, memory=each.memory).last_hidden_state for each in (short, long)]
        assert not torch.equal(following[0], model(SEGMENTS[1], branch=branch).last_hidden_state)
        # Only the distance to what is remembered differs.
        aligned = SegmentMemory(tuple(each[:, :5] for each in long.memory.states), long.memory.present[:, :5])
        again = model(SEGMENTS[1], branch=branch, memory=aligned).last_hidden_state
        torch.testing.assert_close(again, following[0])


def _array(tensor: torch.Tensor) -> np.ndarray:
    return tensor.detach().double().numpy()


def _linear(x: np.ndarray, module: Any) -> np.ndarray:
    return x @ _array(module.weight).T + _array(module.bias)  # type: ignore[no-any-return]


def _norm(x: np.ndarray, module: Any) -> np.ndarray:
    scaled = (x - x.mean(-1, keepdims=True)) / np.sqrt(x.var(-1, keepdims=True) + module.eps)
    return scaled * _array(module.weight) + _array(module.bias)  # type: ignore[no-any-return]


def _layer(layer: Any, below: np.ndarray, same_layer: np.ndarray, bias: np.ndarray, forwards: bool) -> np.ndarray:
    """One layer of one text [T, w], whose keys and values are also of the same layer's states before [m, w]."""
    read, size = np.concatenate([same_layer, below]), below.shape[1] // layer.heads
    query, key, value = (_linear(x, each) for x, each in ((below, layer.query), (read, layer.key), (read, layer.value)))
    heads = []
    for head in range(layer.heads):
        part = slice(head * size, (head + 1) * size)
        scores = np.full((len(below), len(read)), -np.inf)
        for row in range(len(below)):
            for column in range(len(read)):
                distance = column - len(same_layer) - row
                if distance <= 0 or not forwards:
                    product = query[row, part] @ key[column, part] / math.sqrt(size)
                    scores[row, column] = product + bias[SIZES["max_positions"] + distance, head]
        weights = np.exp(scores - scores.max(axis=1, keepdims=True))
        heads.append(weights / weights.sum(axis=1, keepdims=True) @ value[:, part])
    hidden = _norm(below + _linear(np.concatenate(heads, axis=1), layer.attended), layer.attention_norm)
    inner = _linear(hidden, layer.inner)
    inner = 0.5 * inner * (1 + np.vectorize(math.erf)(inner / math.sqrt(2)))
    return _norm(hidden + _linear(inner, layer.output), layer.output_norm)


@pytest.mark.parametrize("branch", ["nlu", "nlg"])
def test_a_layer_remembers_its_own_states_of_the_segment_before(branch: str) -> None:
    """ERNIE-Doc's equation 4 over three segments in float64: h_n of a segment reads h_n, not h_(n-1), of the last."""
    model = branched().branched
    own: Any = getattr(model, branch)
    memory, remembered = None, [np.zeros((0, 16)), np.zeros((0, 16)), np.zeros((0, 8))]
    for segment in SEGMENTS[:3]:
        outputs = model(segment, branch=branch, memory=memory)
        memory = outputs.memory
        below = _norm(_array(model.word_embeddings.weight)[segment[1].numpy()], model.embedding_norm)
        for place, layer in enumerate([*model.universal.layer, *own.stack.layer]):
            stack = model.universal if place < 2 else own.stack
            below = _linear(below, own.down) if place == 2 else below
            bias = _array(stack.distance.weight)
            below = _layer(layer, below, remembered[place], bias, branch == "nlg")
            remembered[place] = below
            np.testing.assert_allclose(_array(memory.states[place][1]), below, rtol=1e-4, atol=1e-5)
        np.testing.assert_allclose(_array(outputs.last_hidden_state[1]), _linear(below, own.up), rtol=1e-4, atol=1e-5)


def test_what_is_remembered_reaches_back_further_than_there_are_layers() -> None:
    """Three layers, five segments: with the states of the layer below, the first would be out of reach."""

    def last(first: torch.Tensor) -> torch.Tensor:
        model, memory = branched().branched, None
        for segment in (first, *SEGMENTS[1:]):
            outputs = model(segment, memory=memory)
            memory = outputs.memory
        return outputs.last_hidden_state  # type: ignore[no-any-return]

    changed = SEGMENTS[0].clone()
    changed[0, 0] = 11
    one, two = last(SEGMENTS[0]), last(changed)
    assert not torch.equal(one[0], two[0])
    torch.testing.assert_close(one[1], two[1])


def test_a_memory_has_no_gradient_and_must_fit() -> None:
    model = branched().branched
    memory = model(SEGMENTS[0]).memory
    assert not any(each.requires_grad for each in memory.states)
    model(SEGMENTS[1], memory=memory.last(2)).last_hidden_state.sum().backward()
    with pytest.raises(UserError, match="a memory of 3 layers and 2 texts, where one of 3 layers and 1 texts"):
        model(SEGMENTS[1][:1], memory=memory)


def test_it_is_saved_loaded_counted_and_given_a_head(tmp_path: Path) -> None:
    bundle = Bundle(branched(), cased_tokenizer(), cased_tokenizer())
    bundle.save(tmp_path)
    again = Bundle.load(tmp_path).model
    for branch in ("nlu", "nlg"):
        assert torch.equal(again(SEGMENTS[0], branch=branch).logits, bundle.model(SEGMENTS[0], branch=branch).logits)
    assert count_parameters(again.config.to_dict()).total == again.num_parameters()
    (tmp_path / "out").mkdir()
    with pytest.raises(UserError, match="transformers has no class for a model with two branches"):
        export_transformers(tmp_path, tmp_path / "out")
    body = {name: each.clone() for name, each in bundle.model.base_model.state_dict().items()}
    headed: Any = with_head(bundle.model, "sequence", 3, 1)
    assert all(torch.equal(each, headed.base_model.state_dict()[name]) for name, each in body.items())
    assert count_parameters(headed.config.to_dict()).total == headed.num_parameters()
    headed(SEGMENTS[0]).logits.sum().backward()
    assert all(each.grad is None for name, each in headed.named_parameters() if ".nlg." in name)
