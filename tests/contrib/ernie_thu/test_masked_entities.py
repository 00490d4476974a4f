"""Hidden tokens and entities of Tsinghua's ERNIE: what is read and predicted, and the loss against a reference."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from pydantic import ValidationError
from safetensors.torch import load_file
from scipy.stats import chisquare

from engine_runs import assert_weights_agree, run_workers
from entities import LINES, entity_sentences, knowledgeable, names, spans, table
from subgraft.contrib.ernie_thu.masked_entities import (
    ENTITIES,
    EntityLoss,
)
from subgraft.contrib.ernie_thu.objective import MaskedEntitiesSettings
from subgraft.data.text.units import first_tokens
from subgraft.modeling.families import NO_ENTITY
from subgraft.training.objectives.compute.embedding_view import IGNORED, ModelEmbeddings
from subgraft.training.objectives.compute.masked import MaskedView
from toys import cased_tokenizer


def test_an_entity_is_at_the_first_token_of_its_mention() -> None:
    tokenizer, sentences = cased_tokenizer(), entity_sentences(random_entities=0.0, hidden_entities=0.0)
    for index, line in enumerate(LINES[:20]):
        example, wanted = sentences.example(index, 0), spans(line)
        body = tokenizer.encode(line)
        assert len(example.read) == len(wanted)
        for (place, entity), (start, _, name) in zip(sorted(example.read.items()), wanted, strict=True):
            assert names()[entity] == name
            # What stands before the token is exactly the text before the mention.
            assert tokenizer.decode(body[: place - 1]).strip() == line[:start].strip()


def test_of_several_mentions_at_a_token_the_longest_counts() -> None:
    assert first_tokens([3, 5, 9], [(6, 9, 1), (0, 3, 2), (0, 5, 3), (4, 5, 4)]) == {0: 3, 1: 4, 2: 1}
    assert first_tokens([5], [(0, 5, 1), (2, 4, 2)]) == first_tokens([5], [(0, 2, 2), (1, 5, 1)]) == {0: 1}
    assert first_tokens([3, -1, 9], [(3, 9, 1), (12, 14, 2)]) == {2: 1}, "a mark without text, and a mention beyond"


def test_of_the_entities_one_in_twenty_is_another_and_three_in_twenty_are_hidden() -> None:
    """Section 3.4; χ² over all mentions of many epochs. Replacements are uniform over the other entities."""
    sentences, whole = entity_sentences(), entity_sentences(random_entities=0.0, hidden_entities=0.0)
    counts, others = np.zeros(3), np.zeros(len(names()))
    for epoch in range(60):
        for index in range(len(LINES)):
            example, right = sentences.example(index, epoch), whole.example(index, epoch).read
            for place, entity in right.items():
                read = example.read.get(place)
                counts[0 if read is None else 1 if read != entity else 2] += 1
                if read is not None and read != entity:
                    others[(read - entity) % len(names())] += 1
    assert chisquare(counts, np.array([0.15, 0.05, 0.80]) * counts.sum()).pvalue > 1e-3
    assert others[0] == 0
    assert chisquare(others[1:]).pvalue > 1e-3


def test_examples_are_functions_of_seed_epoch_and_index() -> None:
    assert entity_sentences().example(3, 2) == entity_sentences().example(3, 2)
    read = {tuple(entity_sentences().example(3, epoch).read.items()) for epoch in range(30)}
    assert len(read) > 2
    assert entity_sentences(seed=2).example(3, 2) != entity_sentences().example(3, 2)


def test_mentions_in_what_is_cut_off_are_left_out() -> None:
    whole, cut = entity_sentences(), entity_sentences(max_length=6)
    for index in range(20):
        example = cut.example(index, 0)
        assert max(example.targets, default=0) <= 4
        assert len(example.candidates) <= len(whole.example(index, 0).candidates)
        assert cut.batch(np.array([index]), 0).entity_ids.shape[1] <= 6


def test_the_entities_loss_is_a_softmax_over_those_of_the_sentence() -> None:
    """Equation 8 in float64 numpy; a sentence's only entity has no loss."""
    model, sentences = knowledgeable(), entity_sentences()
    batch = sentences.batch(np.arange(8), 0)
    states = model.bert(
        batch.input_ids, attention_mask=batch.attention_mask, entity_ids=batch.entity_ids
    ).last_hidden_state.detach()
    weight, bias = (each.detach().double().numpy() for each in (model.entity_head.weight, model.entity_head.bias))
    vectors, expected, count = table().vectors.double().numpy(), 0.0, 0
    for row in range(8):
        own = [entity for entity in batch.candidates[row].tolist() if entity != NO_ENTITY]
        for place, label in enumerate(batch.entity_labels[row].tolist()):
            if label != IGNORED:
                logits = vectors[own] @ (weight @ states[row, place].double().numpy() + bias)
                expected += np.log(np.exp(logits - logits.max()).sum()) + logits.max() - logits[label]
                count += 1
    losses = EntityLoss(model, 0.0, 1.0)(batch)
    assert batch.counts[ENTITIES] == count > 8
    assert losses[ENTITIES].item() == pytest.approx(expected, rel=1e-5)
    logits = model.entity_logits(states[batch.entity_labels != IGNORED], batch.candidates[:1].expand(count, -1))
    probabilities = logits.softmax(dim=1)
    absent = (batch.candidates[:1] == NO_ENTITY).expand(count, -1)
    assert not probabilities[absent].any()
    torch.testing.assert_close(probabilities.sum(dim=1), torch.ones(count))
    alone = [i for i in range(len(LINES)) if len(sentences.example(i, 0).candidates) == 1]
    assert all(not sentences.example(i, 0).targets for i in alone)


def test_the_tokens_loss_is_that_of_the_model_with_labels() -> None:
    model, batch = knowledgeable(), entity_sentences().batch(np.arange(8), 0)
    inputs = {"input_ids": batch.input_ids, "attention_mask": batch.attention_mask, "entity_ids": batch.entity_ids}
    own = model(**inputs, labels=batch.labels).loss
    losses = EntityLoss(model, 0.0, 1.0)(batch)
    assert losses["loss"].item() / batch.counts["loss"] == pytest.approx(own.item(), rel=1e-6)
    alone = [EntityLoss(model, 0.0, 1.0)(entity_sentences().batch(np.array([i]), 0)) for i in range(8)]
    for name, value in losses.items():
        assert value.item() == pytest.approx(sum(each[name].item() for each in alone), rel=1e-5)


def test_a_hidden_entity_is_read_nowhere() -> None:
    """The embedding of an entity that is to be found may change: no state of the sentence does."""
    model, sentences = knowledgeable(), entity_sentences(hidden_entities=0.5, random_entities=0.0)
    checked = 0
    for index in range(30):
        example = sentences.example(index, 0)
        hidden = {example.candidates[at] for place, at in example.targets.items() if place not in example.read}
        hidden -= set(example.read.values())
        if not hidden or not example.read:
            continue
        batch = sentences.collate([example])
        loss = EntityLoss(model, 0.0, 1.0)
        before = loss.by(ModelEmbeddings(model), batch)
        top = model.bert(batch.input_ids, entity_ids=batch.entity_ids).last_hidden_state
        saved = model.bert.encoder.entities.clone()
        with torch.no_grad():
            model.bert.encoder.entities[list(hidden)] += 3.0
        again = model.bert(batch.input_ids, entity_ids=batch.entity_ids).last_hidden_state
        assert torch.equal(top, again)
        assert loss.by(ModelEmbeddings(model), batch)[ENTITIES] != before[ENTITIES], "it is a candidate"
        with torch.no_grad():
            model.bert.encoder.entities.copy_(saved)
            model.bert.encoder.entities[next(iter(example.read.values()))] += 3.0
        assert not torch.equal(top, model.bert(batch.input_ids, entity_ids=batch.entity_ids).last_hidden_state)
        with torch.no_grad():
            model.bert.encoder.entities.copy_(saved)
        checked += 1
    assert checked > 5


def test_all_parameters_are_trained_and_the_entities_are_not() -> None:
    model = knowledgeable()
    losses = EntityLoss(model, 0.0, 1.0)(entity_sentences().batch(np.arange(8), 0))
    sum(losses.values()).backward()
    assert all(each.grad is not None and each.grad.abs().sum() > 0 for each in model.parameters())
    assert not model.bert.encoder.entities.requires_grad
    model.zero_grad()
    none = entity_sentences().batch(np.array([0]), 0)
    none.entity_ids.fill_(NO_ENTITY)
    none.entity_labels.fill_(IGNORED)
    sum(EntityLoss(model, 0.0, 1.0)(none).values()).backward()
    assert all(each.grad is not None for each in model.parameters()), "as on the other workers, whose text has some"


def test_a_generator_is_trained_on_the_text_without_entities() -> None:
    sentences = entity_sentences()
    view = MaskedView(sentences.text)
    example = view.original(4, 0)
    assert cased_tokenizer().decode(view.body(example).tokens) == LINES[4]


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"random_entities": 0.5, "hidden_entities": 0.6}, "random_entities 0.5 and hidden_entities 0.6 add up"),
        ({"masked": 0.9, "random": 0.2}, "masked 0.9 and random 0.2 add up"),
    ],
)
def test_shares_beyond_one_are_refused(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(ValidationError, match=message):
        MaskedEntitiesSettings(**settings)


@pytest.mark.slow
def test_two_workers_train_as_one_does(tmp_path: Path) -> None:
    losses = [run_workers("plain", workers, tmp_path / str(workers), task="entities") for workers in (1, 2)]
    assert len(losses[0]) == 6 and losses[0] == pytest.approx(losses[1], rel=1e-4)
    one, two = (load_file(tmp_path / str(workers) / "final.safetensors") for workers in (1, 2))
    assert_weights_agree(one, two, rtol=1e-3, atol=2e-4)


@pytest.mark.slow
@pytest.mark.parametrize("workers", [1, 2])
def test_zero_trains_as_plain_does(tmp_path: Path, workers: int) -> None:
    plain = run_workers("plain", 1, tmp_path / "plain", task="entities")
    assert run_workers("zero2", workers, tmp_path / "zero", task="entities") == pytest.approx(plain, rel=1e-3)
