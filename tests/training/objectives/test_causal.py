from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import Tensor
from torch.nn.functional import cross_entropy

from subgraft.base.errors import UserError
from subgraft.config.initialisers import ResegmentationSettings
from subgraft.config.training import TrainingSettings
from subgraft.embeddings.generators.generator import Generator, mix
from subgraft.embeddings.generators.generator_loss import GeneratorLoss
from subgraft.embeddings.generators.simulation import Simulator
from subgraft.modeling.bundle import Bundle
from subgraft.modeling.sides import side
from subgraft.training.objectives.causal import CausalSettings
from subgraft.training.objectives.compute.causal import (
    CausalScores,
    CausalView,
    Lines,
    Stream,
    padding_of,
    separator_of,
)
from subgraft.training.objectives.compute.embedding_view import IGNORED, ModelEmbeddings
from subgraft.training.objectives.compute.interface import Examples
from subgraft.training.objectives.compute.single_stack import StackBatch, StackExample, StackLoss, StackStates, collate
from toys import german, german_tokenizer, gpt2

LINES = german(60)
TRAINING = TrainingSettings(max_steps=1, batch_size=200, learning_rate=0.1, warmup_steps=1)
TOKENIZER = german_tokenizer()
END = TOKENIZER.special["eos"]


def _stream(block_tokens: int = 24) -> Stream:
    return Stream(LINES, TOKENIZER, END, block_tokens)


def _batch(examples: Examples[StackExample], indices: range = range(6)) -> StackBatch:
    return collate([examples.example(index, 0) for index in indices], padding_of(TOKENIZER))


def test_a_stream_predicts_every_token_once_and_reads_it_after_those_before_it() -> None:
    stream, whole = _stream(), [END]
    for tokens in TOKENIZER.encode_batch(LINES):
        whole += [*tokens, END]
    examples = [stream.example(index, 0) for index in range(len(stream))]
    predicted = [label for example in examples for label in example.labels if label != IGNORED]
    assert predicted == whole[1:]
    for example in examples:
        assert example.labels[:-1] == example.tokens[1:] and example.labels[-1] == IGNORED
    assert stream.lengths.tolist() == [len(example.tokens) for example in examples]
    assert set(stream.lengths[:-1]) == {24} and 2 <= stream.lengths[-1] <= 24


def test_a_line_stands_between_separators_and_is_cut_to_its_room() -> None:
    lines = Lines(LINES, TOKENIZER, END, 12)
    for index, tokens in enumerate(TOKENIZER.encode_batch(LINES)):
        assert lines.example(index, 0).tokens == [END, *tokens[:10], END]
        assert lines.whole[index] == (len(tokens) <= 10)
    assert lines.lengths.max() == 12


@pytest.mark.parametrize("examples", [_stream(), Lines(LINES, TOKENIZER, END, 30)], ids=["packed", "lines"])
def test_the_loss_is_that_of_transformers(examples: Examples[StackExample]) -> None:
    """Its `labels` are the input itself, which it shifts; with padding on the right and none of it counted."""
    model, batch = gpt2().double(), _batch(examples, range(len(examples) - 6, len(examples)))
    assert not batch.attention_mask.all()
    labels = torch.where(batch.attention_mask.bool(), batch.input_ids, IGNORED)
    theirs = model(input_ids=batch.input_ids, attention_mask=batch.attention_mask, labels=labels).loss
    ours = StackLoss(model)(batch)["loss"] / batch.counts["loss"]
    torch.testing.assert_close(ours, theirs, rtol=1e-6, atol=1e-6, check_dtype=False)
    alone = [StackLoss(model)(_batch(examples, range(i, i + 1)))["loss"] for i in range(3)]
    torch.testing.assert_close(StackLoss(model)(_batch(examples, range(3)))["loss"], torch.stack(alone).sum())


def test_no_state_knows_what_comes_after_it() -> None:
    model, batch = gpt2(), _batch(_stream(), range(1))
    states = StackStates(model, batch, ModelEmbeddings(model)).top
    for place in (3, 11, 23):
        ids = batch.input_ids.clone()
        ids[0, place] = (ids[0, place] + 7) % len(TOKENIZER)
        changed = StackBatch(ids, batch.attention_mask, batch.labels)
        moved = (StackStates(model, changed, ModelEmbeddings(model)).top != states).any(dim=-1)[0]
        assert not moved[:place].any() and moved[place]


def test_bits_per_character_are_those_of_whole_lines() -> None:
    model, lines = gpt2(), [line for line in LINES if len(TOKENIZER.encode(line)) <= 38]
    assert 5 < len(lines) < len(LINES)
    scores = CausalScores(Bundle(model, TOKENIZER, TOKENIZER), LINES, END, TRAINING)()
    nats = 0.0
    with torch.no_grad():
        for line in lines:
            ids = torch.tensor([[END, *TOKENIZER.encode(line), END]])
            nats += float(cross_entropy(model(ids).logits[0, :-1], ids[0, 1:], reduction="sum"))
    characters = sum(map(len, lines))
    assert scores == {"bits_per_character": pytest.approx(nats / characters / np.log(2), rel=1e-5)}
    with pytest.raises(UserError, match="no dev line fits into the 40 tokens"):
        CausalScores(Bundle(model, TOKENIZER, TOKENIZER), [" ".join(LINES)], END, TRAINING)


def test_a_separator_must_be_in_the_vocabulary() -> None:
    assert separator_of(TOKENIZER, CausalSettings()) == END
    if "bos" not in TOKENIZER.special:
        with pytest.raises(UserError, match="no bos token"):
            separator_of(TOKENIZER, CausalSettings(separator="bos"))


def _loss_and_simulator(kd_weight: float = 0.5, rate: float = 0.4) -> tuple[GeneratorLoss, Simulator]:
    model, view = gpt2(), CausalView(_stream(), padding_of(TOKENIZER))
    with torch.no_grad():
        for parameter in model.get_submodule("transformer.h").parameters():
            parameter.mul_(4)  # weights of 0.02 hardly tell one context from another
    generator = Generator("patt", 16)
    torch.nn.init.normal_(generator.weight, generator=torch.Generator().manual_seed(3))
    settings = ResegmentationSettings(merge_rate=rate, split_rate=rate * 0.75)
    return GeneratorLoss(model, generator, view, kd_weight, 0.0, "input").eval(), Simulator(
        view, TOKENIZER, settings, 10, 1, max_positions=40
    )


def test_a_generator_s_prediction_is_that_of_a_model_with_its_rows_in_the_tables() -> None:
    loss, simulator = _loss_and_simulator(0.0)
    for index in range(6):
        batch = simulator.batch(np.array([index]), epoch=0)
        assert len(batch.new) and batch.predicted is batch.resegmented
        table = side(loss.model, "decoder").input.weight
        rows = torch.cat([table, mix(table, loss.generator.mixing_weights(table, batch.new), batch.new)])
        ids, labels = batch.resegmented.input_ids[0], batch.resegmented.labels  # type: ignore[attr-defined]
        states = loss.model.get_submodule("transformer")(inputs_embeds=rows[ids][None]).last_hidden_state
        logits: Tensor = states @ rows.T
        known = batch.competing_tokens.spelling < len(TOKENIZER)
        assert not known.any(), "merging and splitting make no token that is there already"
        expected = cross_entropy(logits[0], labels[0], ignore_index=IGNORED, reduction="sum")
        torch.testing.assert_close(loss(batch)["prediction"], expected, rtol=1e-4, atol=1e-4)


def test_distillation_compares_states_where_a_span_s_tokens_are_read() -> None:
    loss, simulator = _loss_and_simulator()
    batch = simulator.batch(np.array([2]), epoch=0)
    table, spans = side(loss.model, "decoder").input.weight, batch.spans
    rows = torch.cat([table, mix(table, loss.generator.mixing_weights(table, batch.new), batch.new)])
    teacher = loss.model.get_submodule("transformer")(batch.original.input_ids).last_hidden_state[0]  # type: ignore[attr-defined]
    changed = rows[batch.resegmented.input_ids]  # type: ignore[attr-defined]
    student = loss.model.get_submodule("transformer")(inputs_embeds=changed).last_hidden_state[0]
    expected = torch.zeros(())
    for span in range(spans.count):
        # A label stands one place before its token, and the first token of all lies in no span.
        before = teacher[spans.original[spans.original[:, 2] == span, 1] + 1].mean(dim=0)
        after = student[spans.resegmented[spans.resegmented[:, 2] == span, 1] + 1].mean(dim=0)
        expected = expected + (before - after).norm()
    assert spans.original[:, 1].max() == batch.original.labels.shape[1] - 2
    torch.testing.assert_close(loss(batch)["distillation"], expected, rtol=1e-4, atol=1e-4)


def test_only_the_generator_learns_and_without_new_tokens_nothing_does() -> None:
    loss, simulator = _loss_and_simulator()
    sums = loss(simulator.batch(np.arange(4), epoch=1))
    (sums["prediction"] + sums["distillation"]).backward()
    assert [name for name, p in loss.named_parameters() if p.grad is not None] == ["generator.weight"]
    gradient = loss.generator.weight.grad
    assert gradient is not None and gradient.abs().sum() > 0
    loss, simulator = _loss_and_simulator(rate=0.0)
    sums = loss(simulator.batch(np.arange(4), epoch=1))
    assert sums["distillation"].item() == pytest.approx(0.0, abs=1e-3)
    (gradient,) = torch.autograd.grad(sums["prediction"], [loss.generator.weight])
    assert not gradient.any()


def test_simulated_blocks_fit_into_the_model() -> None:
    view = CausalView(_stream(40), padding_of(TOKENIZER))
    settings = ResegmentationSettings(merge_rate=0.0, split_rate=0.3)
    free = Simulator(view, TOKENIZER, settings, 10, 1).batch(np.arange(4), 0)
    bound = Simulator(view, TOKENIZER, settings, 10, 1, max_positions=40).batch(np.arange(4), 0)
    assert free.resegmented.shape[1] > 40 and bound.resegmented.shape[1] == 40
