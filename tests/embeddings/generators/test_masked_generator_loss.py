from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import Tensor
from torch.nn.functional import cross_entropy

from subgraft.config.initialisers import ResegmentationSettings
from subgraft.embeddings.generators.generator import Generator, GeneratorKind, mix
from subgraft.embeddings.generators.generator_loss import GeneratorLoss
from subgraft.embeddings.generators.simulation import Simulator
from subgraft.training.objectives.compute.embedding_view import IGNORED
from subgraft.training.objectives.compute.interface import TokenBatch
from subgraft.training.objectives.compute.masked import MaskedSentences, MaskedView
from subgraft.training.objectives.compute.single_stack import StackBatch
from subgraft.training.objectives.masked import MaskedSettings
from toys import bert, cased_tokenizer, english, german

LINES = english(40) + german(40)
SIZE = len(cased_tokenizer())


def _simulator(share: float = 0.3, rate: float = 0.4) -> Simulator:
    tokenizer = cased_tokenizer()
    sentences = MaskedSentences(LINES, tokenizer, MaskedSettings(share=share), max_length=30, seed=1)
    settings = ResegmentationSettings(merge_rate=rate, split_rate=rate * 0.75)
    return Simulator(MaskedView(sentences), tokenizer, settings, 10, 1)


def _loss(kd_weight: float = 0.5, kind: GeneratorKind = "patt") -> GeneratorLoss:
    model = bert()
    with torch.no_grad():
        for parameter in model.bert.parameters():
            parameter.mul_(4)  # weights of 0.02 hardly tell one sentence from another
    generator = Generator(kind, 16)
    torch.nn.init.normal_(generator.weight, generator=torch.Generator().manual_seed(3))
    return GeneratorLoss(model, generator, _simulator()._view, kd_weight, 0.0, "input").eval()


def _ids(batch: TokenBatch) -> Tensor:
    """What is read [B, T]."""
    assert isinstance(batch, StackBatch)
    return batch.input_ids


def test_new_tokens_are_read_and_predicted() -> None:
    batch = _simulator().batch(np.arange(30), epoch=0)
    assert len(batch.new) > 10
    assert (_ids(batch.predicted) >= SIZE).any()
    assert (batch.predicted.labels >= SIZE).any()
    predicted = batch.predicted.labels != IGNORED
    assert torch.equal(batch.predicted.labels[predicted], _ids(batch.resegmented)[predicted])
    assert not (_ids(batch.original) >= SIZE).any()


@pytest.mark.parametrize("share", [0.15, 0.4])
def test_the_prediction_is_the_models_own_with_the_sentences_new_tokens_in_its_tables(share: float) -> None:
    """Held, sentence by sentence, to a model whose tables were really extended by the generated rows."""
    loss, simulator = _loss(0.0), _simulator(share)
    for index in range(8):
        batch = simulator.batch(np.array([index]), epoch=0)
        model = bert()
        model.load_state_dict(loss.model.state_dict())
        table, bias = model.bert.embeddings.word_embeddings.weight.detach(), model.cls.predictions.bias.detach()
        weights = loss.generator.mixing_weights(table, batch.new)
        head = model.cls.predictions.transform
        extended = torch.cat([table, mix(table, weights, batch.new)])
        extended_bias = torch.cat([bias, mix(bias[:, None], weights, batch.new)[:, 0]])
        states = model.bert(inputs_embeds=extended[_ids(batch.predicted)]).last_hidden_state
        logits: Tensor = head(states) @ extended.T + extended_bias
        expected = cross_entropy(logits[0], batch.predicted.labels[0], ignore_index=IGNORED, reduction="sum")
        torch.testing.assert_close(loss(batch)["prediction"], expected, rtol=1e-4, atol=1e-4)


def test_distillation_compares_the_words_of_both_sentences_with_nothing_hidden() -> None:
    loss, batch = _loss(), _simulator(share=0.9).batch(np.array([0]), epoch=0)
    model, spans = loss.model.get_submodule("bert"), batch.spans
    table = model.get_parameter("embeddings.word_embeddings.weight").detach()
    rows = mix(table, loss.generator.mixing_weights(table, batch.new), batch.new)
    teacher = model(_ids(batch.original)).last_hidden_state[0]
    student = model(inputs_embeds=torch.cat([table, rows])[_ids(batch.resegmented)]).last_hidden_state[0]
    expected = torch.zeros(())
    for span in range(spans.count):
        before = teacher[spans.original[spans.original[:, 2] == span, 1]].mean(dim=0)
        after = student[spans.resegmented[spans.resegmented[:, 2] == span, 1]].mean(dim=0)
        expected = expected + (before - after).norm()
    torch.testing.assert_close(loss(batch)["distillation"], expected, rtol=1e-4, atol=1e-4)
    pieces = cased_tokenizer().pieces
    first = int(spans.original[0, 1])
    assert (first, pieces[int(_ids(batch.original)[0, 0])]) == (1, "[CLS]"), "no span holds a special token"


def test_without_resegmentation_nothing_is_distilled() -> None:
    loss, batch = _loss(), _simulator(rate=0.0).batch(np.arange(6), epoch=0)
    sums = loss(batch)
    assert sums["distillation"].item() == pytest.approx(0.0, abs=1e-3)
    assert isinstance(batch.predicted, StackBatch)
    own = loss.model(input_ids=batch.predicted.input_ids, attention_mask=batch.predicted.attention_mask).logits
    expected = cross_entropy(own.flatten(0, 1), batch.predicted.labels.flatten(), ignore_index=IGNORED, reduction="sum")
    torch.testing.assert_close(sums["prediction"], expected, rtol=1e-4, atol=1e-3)


@pytest.mark.parametrize("kd_weight", [0.0, 0.5])
@pytest.mark.parametrize("kind", ["att", "patt"])
def test_a_batch_without_new_tokens_has_a_gradient_of_zero(kind: GeneratorKind, kd_weight: float) -> None:
    loss, batch = _loss(kd_weight, kind), _simulator(rate=0.0).batch(np.arange(6), epoch=0)
    assert len(batch.new) == 0
    for value in loss(batch).values():
        (gradient,) = torch.autograd.grad(value, [loss.generator.weight], retain_graph=True)
        assert gradient.shape == loss.generator.weight.shape
        assert not gradient.any()


def test_only_the_generator_gets_gradients_and_a_sentence_keeps_its_loss_in_any_company() -> None:
    loss, simulator = _loss(), _simulator()
    together = loss(simulator.batch(np.arange(6), epoch=2))
    (together["prediction"] + together["distillation"]).backward()
    trained = [name for name, parameter in loss.named_parameters() if parameter.grad is not None]
    assert trained == ["generator.weight"]
    assert loss.generator.weight.grad is not None and loss.generator.weight.grad.abs().sum() > 0
    alone = [loss(simulator.batch(np.array([i]), epoch=2)) for i in range(6)]
    for key, total in together.items():
        torch.testing.assert_close(total, sum(part[key] for part in alone), rtol=1e-4, atol=1e-3)


def test_simulation_is_a_function_of_seed_epoch_and_index() -> None:
    first, again = (_simulator().batch(np.arange(8), epoch=1) for _ in range(2))
    assert torch.equal(_ids(first.predicted), _ids(again.predicted))
    assert torch.equal(first.predicted.labels, again.predicted.labels)
    assert torch.equal(first.new.token_ids, again.new.token_ids)
