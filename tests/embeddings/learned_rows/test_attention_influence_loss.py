"""Attention influence: the loss against loops over a transplanted model's attentions, and what training does."""

from __future__ import annotations

from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from new_vocabularies import LANGUAGES, TEXTS, new_vocabulary, upstream
from subgraft.base.errors import UserError
from subgraft.config.settings_base import SideName
from subgraft.config.training import TrainingSettings
from subgraft.embeddings.learned_rows.attention_influence_loss import (
    Attended,
    AttentionCapture,
    AttentionInfluenceLoss,
    segments,
    squared_differences,
)
from subgraft.embeddings.learned_rows.segmentation_pairs import SegmentationBatch, SegmentPairs
from subgraft.embeddings.learned_rows.student_embeddings import StudentTable
from subgraft.embeddings.methods.attention_influence import AttentionInfluenceSettings
from subgraft.embeddings.transplanting.transplant import Method, transplant
from subgraft.modeling.bundle import Bundle
from subgraft.modeling.families.encoder_only import BERT2BERT
from subgraft.modeling.sides import side as side_of
from subgraft.subwords.vocabulary.tokenizer import Tokenizer
from subgraft.training.checkpoint import Checkpoints
from subgraft.training.engine import PlainEngine
from subgraft.training.loop import Trainer
from toys import joint_tokenizer, t5

SIDES: tuple[SideName, ...] = ("encoder", "decoder")
CASES = [(family, side) for family in ("marian", "mbart", BERT2BERT) for side in SIDES]


def settings(steps: int = 1) -> TrainingSettings:
    return TrainingSettings(max_steps=steps, batch_size=600, max_length=40, learning_rate=0.01, warmup_steps=5)


def influence_loss(
    bundle: Bundle, side: SideName, target: Tokenizer, **changes: object
) -> tuple[AttentionInfluenceLoss, StudentTable]:
    table = side_of(bundle.model, side)
    start = StudentTable.of(table, bundle.tokenizers[side], target)
    chosen = AttentionInfluenceSettings.model_validate(changes)
    return AttentionInfluenceLoss(bundle.model, table, start, chosen), start


def sentences(
    bundle: Bundle, side: SideName, target: Tokenizer, start: StudentTable, first: int, last: int
) -> SegmentPairs:
    return SegmentPairs(TEXTS[first:last], bundle, side, target, LANGUAGES, settings(), start.tokens)


def whole(data: SegmentPairs) -> SegmentationBatch:
    return data.batch(np.arange(len(data.lengths)), 0)


def test_differences_are_those_of_loops_over_tokens() -> None:
    rng = np.random.default_rng(0)
    borders = {0: ([0, 2, 4], [1, 2, 3]), 1: ([1, 2], [0, 3])}  # the second sentence has padding in both
    both = [(rng.random((2, 3, length, length)), rng.random((2, length, 3, 4))) for length in (5, 4)]
    sentence = torch.tensor([row for row, (ends, _) in borders.items() for _ in ends])
    lasts = [torch.tensor([end for ends in borders.values() for end in ends[which]]) for which in (0, 1)]
    attended = [Attended(torch.tensor(weights), torch.tensor(values)) for weights, values in both]
    inside = [segments(sentence, last, one.values.shape[:2]) for last, one in zip(lasts, attended, strict=True)]
    result = squared_differences(attended[0], inside[0], attended[1], inside[1])
    flat = [(weights, values.reshape(*values.shape[:2], -1)) for weights, values in both]
    expected = 0.0
    for row, (before, after) in borders.items():
        for i, j in product(range(len(before)), repeat=2):
            old, new = spans(before), spans(after)
            difference = influence(*flat[1], row, new[i], new[j]) - influence(*flat[0], row, old[i], old[j])
            expected += float((difference**2).mean())
    assert float(result) == pytest.approx(expected, rel=1e-12)
    same = squared_differences(attended[0], inside[0], attended[0], inside[0])
    assert float(same) == pytest.approx(0, abs=1e-12)


@pytest.mark.parametrize("side", SIDES)
@pytest.mark.parametrize("layer", [1, 2])
def test_the_loss_is_that_of_the_model_that_a_transfer_makes(side: SideName, layer: int) -> None:
    """From the attentions that transformers returns and the values of a Marian's layer, segment by segment."""
    layer = 1 if side == "encoder" else layer  # this Marian has one layer there
    bundle, target = upstream("marian"), new_vocabulary("marian", side)
    module, start = influence_loss(bundle, side, target, layer=layer)
    batch = whole(sentences(bundle, side, target, start, 0, 8))
    with torch.no_grad():
        loss = float(module(batch)["distillation"])
    teacher = attended(upstream("marian").model, batch.teacher, side, layer)
    made = transplant(upstream("marian").model, bundle.tokenizers, {side: target}, Method("mean")).model
    student = attended(made, batch.student, side, layer)
    assert loss == pytest.approx(by_loops(teacher, student, batch), rel=1e-4)
    assert loss > 0


def attended(model: Any, read: Any, side: SideName, layer: int) -> tuple[np.ndarray, np.ndarray]:
    """Weights [B, H, T, T] and values [B, T, d] of a layer, whose input are the states after the layer before."""
    model.eval().set_attn_implementation("eager")
    with torch.no_grad():
        out = model(
            input_ids=read.input_ids, attention_mask=read.attention_mask, decoder_input_ids=read.decoder_input_ids,
            output_hidden_states=True, output_attentions=True,
        )  # fmt: skip
        states = (out.encoder_hidden_states if side == "encoder" else out.decoder_hidden_states)[layer - 1]
        stack = model.get_encoder() if side == "encoder" else model.get_decoder()
        values: Tensor = stack.layers[layer - 1].self_attn.v_proj(states)
    weights = (out.encoder_attentions if side == "encoder" else out.decoder_attentions)[layer - 1]
    return weights.double().numpy(), values.double().numpy()


def by_loops(
    teacher: tuple[np.ndarray, np.ndarray], student: tuple[np.ndarray, np.ndarray], batch: SegmentationBatch
) -> float:
    total = 0.0
    for row in range(len(batch.teacher.input_ids)):
        places = [(one, two) for sentence, one, two in batch.agreeing.tolist() if sentence == row]
        before = spans([one for one, _ in places])
        after = spans([two for _, two in places])
        for i in range(len(places)):
            for j in range(len(places)):
                difference = influence(*student, row, after[i], after[j]) - influence(
                    *teacher, row, before[i], before[j]
                )
                total += float((difference**2).mean())
    return total


def spans(ends: list[int]) -> list[range]:
    return [range(first, end + 1) for first, end in zip([0, *(e + 1 for e in ends)], ends, strict=False)]


def influence(weights: np.ndarray, values: np.ndarray, row: int, queries: range, keys: range) -> np.ndarray:
    heads = weights.shape[1]
    by_head = values[row].reshape(len(values[row]), heads, -1)
    rows = [[weights[row, h, t, list(keys)] @ by_head[list(keys), h] for h in range(heads)] for t in queries]
    mean: np.ndarray = np.array(rows).reshape(len(queries), -1).mean(axis=0)
    return mean


@pytest.mark.parametrize(("family", "side"), CASES)
def test_only_the_rows_of_new_tokens_that_were_read_move(family: str, side: SideName, tmp_path: Path) -> None:
    bundle, target = upstream(family), new_vocabulary(family, side)
    module, start = influence_loss(bundle, side, target)
    frozen = {name: tensor.clone() for name, tensor in bundle.model.state_dict().items()}
    data = sentences(bundle, side, target, start, 0, 12)
    batch = data.batch(np.arange(4), 0)
    module(batch)["distillation"].backward()
    assert [name for name, parameter in module.named_parameters() if parameter.grad is not None] == ["embeddings.added"]
    assert module.embeddings.added.grad is not None
    moved = {start.tokens[i] for i in module.embeddings.added.grad.any(dim=1).nonzero().flatten().tolist()}
    read = batch.student.input_ids if side == "encoder" else batch.student.decoder_input_ids
    assert moved == set(start.tokens).intersection(read.flatten().tolist()) != set()
    engine = PlainEngine(module, settings(3), torch.device("cpu"))
    Trainer(module, {"distillation": 1.0}, data, settings(3), engine, Checkpoints(tmp_path), seed=1).run()
    assert all(torch.equal(tensor, frozen[name]) for name, tensor in bundle.model.state_dict().items())


@pytest.mark.parametrize(("family", "side"), CASES)
def test_training_brings_influences_on_other_sentences_nearer(family: str, side: SideName, tmp_path: Path) -> None:
    bundle, target = upstream(family), new_vocabulary(family, side)
    module, start = influence_loss(bundle, side, target)
    other = whole(sentences(bundle, side, target, start, 250, 300))
    with torch.no_grad():
        before = float(module(other)["distillation"])
    engine = PlainEngine(module, settings(40), torch.device("cpu"))
    data = sentences(bundle, side, target, start, 0, 250)
    Trainer(module, {"distillation": 1.0}, data, settings(40), engine, Checkpoints(tmp_path), seed=1).run()
    with torch.no_grad():
        after = float(module(other)["distillation"])
    assert after < 0.9 * before


def test_every_segment_of_the_sentence_has_a_place_and_layers_after_it_are_not_run() -> None:
    """A decoder's segments before the first new token are read by those after it."""
    bundle, target = upstream("marian"), new_vocabulary("marian", "decoder")
    module, start = influence_loss(bundle, "decoder", target, layer=1)
    batch = whole(sentences(bundle, "decoder", target, start, 0, 12))
    assert (batch.agreeing[:, 1:] == 0).all(dim=1).sum() == len(batch.teacher.input_ids)
    layers: Any = bundle.model.get_decoder().layers
    run: list[int] = []
    for at, layer in enumerate(layers):
        layer.register_forward_hook(lambda *_, at=at: run.append(at))
    module(batch)
    assert run == []


@pytest.mark.parametrize("side", SIDES)
def test_t5_has_weights_with_its_relative_positions(side: SideName) -> None:
    tokenizer, model = joint_tokenizer(), t5()
    read = torch.tensor([tokenizer.encode_batch([TEXTS[0][0]])[0]])
    inputs: dict[str, Any] = {"input_ids": read, "attention_mask": torch.ones_like(read)}

    def run() -> Any:
        model.set_attn_implementation("eager")
        return model.eval()(**inputs, decoder_input_ids=read, output_attentions=True)

    with torch.no_grad():
        weights = run()[f"{side}_attentions"][0]
        captured = AttentionCapture(model, side, 1)(run)
    torch.testing.assert_close(captured.weights, weights)
    assert captured.values.shape[:3] == (1, read.shape[1], weights.shape[1])


def test_a_layer_that_the_model_lacks_is_refused() -> None:
    with pytest.raises(UserError, match=r"no layer 3 with values of its own in this marian's decoder"):
        AttentionCapture(upstream("marian").model, "decoder", 3)
