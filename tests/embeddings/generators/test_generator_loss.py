from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import Tensor

from subgraft.config.corpora import Languages
from subgraft.config.initialisers import Negatives, ResegmentationSettings
from subgraft.config.settings_base import SideName
from subgraft.embeddings.generators.generator import Generator, GeneratorKind, mix
from subgraft.embeddings.generators.generator_loss import GeneratorLoss
from subgraft.embeddings.generators.resegment import Resegmenter
from subgraft.embeddings.generators.simulation import GeneratorBatch, Simulator
from subgraft.modeling.sides import decoder_states_from_memory, side
from subgraft.training.objectives.compute.embedding_view import extended_cross_entropy, without_twins
from subgraft.training.objectives.compute.interface import TokenBatch
from subgraft.training.objectives.compute.seq2seq import Seq2SeqBatch, Seq2SeqView
from subgraft.training.objectives.compute.translation import Translation
from toys import SHAPE, build_marian, english, english_tokenizer, german, german_tokenizer, output_bias, sequence_format

SIDES: tuple[SideName, SideName] = ("encoder", "decoder")


def _simulator(
    name: SideName, merge_rate: float = 0.4, max_positions: int | None = None, negatives: Negatives = "sentence"
) -> Simulator:
    source, target = english_tokenizer(), german_tokenizer()
    form = sequence_format({"model_type": "marian"}, source, target, Languages(source="en", target="de"))
    pairs = list(zip(english(60), german(60), strict=True))
    examples = Translation(pairs, source, target, form, max_length=40)
    tokenizer = target if name == "decoder" else source
    settings = ResegmentationSettings(merge_rate=merge_rate, split_rate=0.3)
    view = Seq2SeqView(examples, name, (source.special["pad"], target.special["pad"]))
    return Simulator(view, tokenizer, settings, 10, 1, max_positions, negatives)


def _matched(name: SideName, rate: float = 0.5) -> Simulator:
    """Tokens like those that a larger vocabulary of the same language has."""
    source, target = english_tokenizer(), german_tokenizer()
    form = sequence_format({"model_type": "marian"}, source, target, Languages(source="en", target="de"))
    pairs = list(zip(english(60), german(60), strict=True))
    examples = Translation(pairs, source, target, form, max_length=40)
    tokenizer, larger = (target, german_tokenizer(200)) if name == "decoder" else (source, english_tokenizer(200))
    settings = ResegmentationSettings(match="downstream", match_rate=rate)
    view = Seq2SeqView(examples, name, (source.special["pad"], target.special["pad"]))
    return Simulator(view, tokenizer, settings, 10, 1, target=larger)


def _loss(name: SideName, kd_weight: float = 0.5, kind: GeneratorKind = "patt") -> GeneratorLoss:
    model = build_marian(english_tokenizer(), german_tokenizer(), seed=1, **SHAPE)
    generator = Generator(kind, SHAPE["d_model"])
    torch.nn.init.normal_(generator.weight, generator=torch.Generator().manual_seed(3))
    return GeneratorLoss(model, generator, _simulator(name)._view, kd_weight, 0.0, "input").eval()


def test_extended_cross_entropy_is_cross_entropy_over_the_sentence_s_own_vocabulary() -> None:
    torch.manual_seed(0)
    known, new = torch.randn(6, 11, dtype=torch.float64), torch.randn(6, 4, dtype=torch.float64)
    own = torch.tensor([[1, 1, 0, 0]] * 3 + [[0, 0, 1, 0]] * 2 + [[0, 0, 0, 0]]).bool()
    labels = torch.tensor([0, 11, 12, 13, 5, 10])
    for smoothing in (0.0, 0.1):
        expected = torch.zeros((), dtype=torch.float64)
        for row in range(6):
            logits = torch.cat([known[row], new[row][own[row]]])
            label = int(labels[row])
            if label >= 11:
                label = 11 + int(own[row][: label - 11].sum())
            expected += torch.nn.functional.cross_entropy(
                logits[None], torch.tensor([label]), label_smoothing=smoothing
            )
        torch.testing.assert_close(extended_cross_entropy(known, new, own, labels, smoothing), expected)


def test_tokens_that_are_spelled_alike_do_not_compete() -> None:
    """New tokens 0 and 2 spell the known token 4, token 1 spells nothing known, token 3 is spelled as 1 is."""
    torch.manual_seed(0)
    size, spelling = 6, torch.tensor([4, 6, 4, 6])
    known, new = torch.randn(6, size, dtype=torch.float64), torch.randn(6, 4, dtype=torch.float64)
    labels = torch.tensor([6, 7, 8, 9, 4, 0])
    absent = [{4, 8}, {9}, {4, 6}, {7}, {6, 8}, set()]
    competing, own = without_twins(known, torch.ones(6, 4).bool(), labels, spelling)
    for smoothing in (0.0, 0.1):
        expected = torch.zeros((), dtype=torch.float64)
        for row, gone in enumerate(absent):
            left = [token for token in range(size + 4) if token not in gone]
            logits, label = torch.cat([known[row], new[row]])[left], torch.tensor([left.index(int(labels[row]))])
            expected += torch.nn.functional.cross_entropy(logits[None], label, label_smoothing=smoothing)
        torch.testing.assert_close(extended_cross_entropy(competing, new, own, labels, smoothing), expected)


def test_a_sentence_without_new_tokens_has_a_finite_gradient() -> None:
    known = torch.randn(2, 5, requires_grad=True)
    new = torch.randn(2, 3, requires_grad=True)
    extended_cross_entropy(known, new, torch.zeros(2, 3).bool(), torch.tensor([1, 2]), 0.1).backward()
    assert known.grad is not None and torch.isfinite(known.grad).all()
    assert new.grad is not None and not new.grad.any()


@pytest.mark.parametrize("name", SIDES)
def test_only_the_generator_gets_gradients(name: SideName) -> None:
    loss = _loss(name)
    batch = _simulator(name).batch(np.arange(12), epoch=0)
    sums = loss(batch)
    assert set(sums) == {"prediction", "distillation"}
    (sums["prediction"] + sums["distillation"]).backward()
    trained = [key for key, parameter in loss.named_parameters() if parameter.grad is not None]
    assert trained == ["generator.weight"]
    assert loss.generator.weight.grad is not None and loss.generator.weight.grad.abs().sum() > 0


@pytest.mark.parametrize("kd_weight", [0.0, 0.5])
@pytest.mark.parametrize("kind", ["att", "patt"])
@pytest.mark.parametrize("name", SIDES)
def test_a_batch_without_new_tokens_has_a_gradient_of_zero(
    name: SideName, kind: GeneratorKind, kd_weight: float
) -> None:
    loss, simulator = _loss(name, kd_weight, kind), _simulator(name)
    assert isinstance(simulator._resegment, Resegmenter)
    simulator._resegment.settings = ResegmentationSettings(merge_rate=0.0, split_rate=0.0)
    batch = simulator.batch(np.arange(8), epoch=0)
    assert len(batch.new) == 0
    for value in loss(batch).values():
        (gradient,) = torch.autograd.grad(value, [loss.generator.weight], retain_graph=True)
        assert gradient.shape == loss.generator.weight.shape
        assert not gradient.any()


@pytest.mark.parametrize("name", SIDES)
def test_the_loss_does_not_depend_on_the_company_a_sentence_keeps(name: SideName) -> None:
    """What a batch's losses add up to is the same for the batch and for its sentences one by one."""
    loss, simulator = _loss(name), _simulator(name)
    together = loss(simulator.batch(np.arange(8), epoch=3))
    alone = [loss(simulator.batch(np.array([i]), epoch=3)) for i in range(8)]
    for key in together:
        torch.testing.assert_close(together[key], sum(part[key] for part in alone), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("name", SIDES)
def test_tokens_like_the_real_ones_are_learnt_from_as_well(name: SideName) -> None:
    """In any company, too; and what stands in for a token of the vocabulary has other rows than its own."""
    loss, simulator = _loss(name), _matched(name)
    batch = simulator.batch(np.arange(8), epoch=3)
    assert len(batch.new) > 5
    size = len(german_tokenizer() if name == "decoder" else english_tokenizer())
    known = batch.competing_tokens.spelling < size
    assert known.any()
    twins = batch.competing_tokens.spelling[batch.new.rows]
    assert not (twins == batch.new.token_ids).any(), "no token is similar to itself"
    together = loss(batch)
    sum(together.values(), torch.zeros(())).backward()
    assert loss.generator.weight.grad is not None and loss.generator.weight.grad.abs().sum() > 0
    alone = [loss(simulator.batch(np.array([i]), epoch=3)) for i in range(8)]
    for key in together:
        torch.testing.assert_close(together[key], sum(part[key] for part in alone), rtol=1e-4, atol=1e-4)


def test_negatives_of_the_batch_are_the_new_tokens_of_all_its_sentences() -> None:
    loss = _loss("decoder", 0.0)
    own, others = (_simulator("decoder", negatives=kind).batch(np.arange(8), 3) for kind in ("sentence", "batch"))
    assert torch.equal(own.resegmented.labels, others.resegmented.labels)
    assert others.competing_tokens.own.all() and not own.competing_tokens.own.all()
    with torch.no_grad():
        assert loss(others)["prediction"] > loss(own)["prediction"]
        model, batch = loss.model, others
        table = side(model, "decoder").input.weight
        rows = mix(table, loss.generator.mixing_weights(table, batch.new), batch.new)
        bias = output_bias(model).reshape(-1, 1)
        shift = mix(bias, loss.generator.mixing_weights(table, batch.new), batch.new)
        extended, changed = torch.cat([table, rows]), batch.resegmented
        assert isinstance(changed, Seq2SeqBatch)
        memory = model.get_encoder()(changed.input_ids, changed.attention_mask).last_hidden_state
        states = decoder_states_from_memory(
            model, memory, changed.attention_mask, inputs_embeds=extended[changed.decoder_input_ids]
        )
        logits = states @ extended.T + torch.cat([bias, shift]).flatten()
    expected = torch.nn.functional.cross_entropy(logits.flatten(0, 1), changed.labels.flatten(), reduction="sum")
    torch.testing.assert_close(loss(others)["prediction"], expected, rtol=1e-4, atol=1e-3)


@pytest.mark.parametrize("name", SIDES)
def test_without_resegmentation_the_loss_is_the_model_s_own_and_nothing_is_distilled(name: SideName) -> None:
    loss = _loss(name)
    simulator = _simulator(name)
    assert isinstance(simulator._resegment, Resegmenter)
    simulator._resegment.settings = ResegmentationSettings(merge_rate=0.0, split_rate=0.0)
    batch: GeneratorBatch = simulator.batch(np.arange(8), epoch=0)
    sums = loss(batch)
    assert isinstance(batch.original, Seq2SeqBatch)
    logits: Tensor = loss.model(
        input_ids=batch.original.input_ids,
        attention_mask=batch.original.attention_mask,
        decoder_input_ids=batch.original.decoder_input_ids,
    ).logits
    expected = torch.nn.functional.cross_entropy(logits.flatten(0, 1), batch.original.labels.flatten(), reduction="sum")
    torch.testing.assert_close(sums["prediction"], expected, rtol=1e-4, atol=1e-3)
    assert sums["distillation"] == 0


def test_simulation_is_a_function_of_seed_epoch_and_index() -> None:
    first, again = (_simulator("decoder").batch(np.arange(10), epoch=1) for _ in range(2))
    assert torch.equal(first.resegmented.labels, again.resegmented.labels)
    assert torch.equal(first.new.token_ids, again.new.token_ids)
    other = _simulator("decoder").batch(np.arange(10), epoch=2)
    assert first.resegmented.labels.shape != other.resegmented.labels.shape or not torch.equal(
        first.resegmented.labels, other.resegmented.labels
    )


@pytest.mark.parametrize("name", SIDES)
def test_simulated_sentences_fit_into_the_model(name: SideName) -> None:
    """Splitting makes sentences longer; where the model ends, they stay as they are."""

    def longest(batch: TokenBatch) -> int:
        assert isinstance(batch, Seq2SeqBatch)
        return (batch.decoder_input_ids if name == "decoder" else batch.input_ids).shape[1]

    free = _simulator(name, merge_rate=0).batch(np.arange(60), 0)
    limit = longest(free.original)
    assert longest(free.resegmented) > limit
    assert longest(_simulator(name, merge_rate=0, max_positions=limit).batch(np.arange(60), 0).resegmented) == limit
