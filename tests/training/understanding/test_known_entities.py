"""A model that reads entities reads those that a task marks in its texts, if it knows them by name."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from entities import knowledgeable, names
from subgraft.modeling.bundle import Bundle
from subgraft.modeling.entities import NO_ENTITY
from subgraft.modeling.heads import with_head
from subgraft.training.understanding.inputs import TextEncoder, model_inputs
from subgraft.training.understanding.sequences import EntityTyping, RelationClassification, marked
from toys import bert, cased_tokenizer

ONE, TWO = names()[3], names()[8]
TEXT = f"{ONE} unknownword {TWO}"
SECOND = (len(TEXT) - len(TWO), len(TEXT))
LABELS = ("before", "after")


def _bundle(model: Any) -> Bundle:
    return Bundle(with_head(model, "sequence", LABELS, 1), cased_tokenizer(), cased_tokenizer())


def test_the_marked_entities_are_at_their_first_tokens() -> None:
    encoder, tokenizer = TextEncoder.of(_bundle(knowledgeable()), None), cased_tokenizer()
    (relation,) = RelationClassification(LABELS).read([(TEXT, (0, len(ONE)), SECOND)], encoder).examples
    (row,) = relation.rows
    read = {names()[entity]: place for place, entity in row.entities}
    assert set(read) == {ONE, TWO}
    for name, place in read.items():
        size = len(tokenizer.encode(name))
        assert tokenizer.decode(row.tokens[place : place + size].tolist()) == name
    (typed,) = EntityTyping(LABELS).read([(TEXT, SECOND)], encoder).examples
    assert [names()[entity] for _, entity in typed.rows[0].entities] == [TWO]
    start = TEXT.index("unknownword")
    (unknown,) = EntityTyping(LABELS).read([(TEXT, (start, start + 11))], encoder).examples
    assert unknown.rows[0].entities == ()


def test_marks_around_entities_say_where_these_begin() -> None:
    text, entities = marked("Oslo in Norway", [((8, 14), "#"), ((0, 4), "@")])
    assert text == "@ Oslo @ in # Norway #"
    assert [(text[start : start + len(name)], name) for start, name in entities] == [("Oslo",) * 2, ("Norway",) * 2]


def test_the_head_reads_them_and_a_bert_has_none() -> None:
    task = EntityTyping(LABELS)
    bundle = _bundle(knowledgeable())
    split = task.read([(TEXT, SECOND), (TEXT, (0, len(ONE)))], TextEncoder.of(bundle, None))
    batch = task.collate(split.examples, 0)
    assert (batch.entity_ids != NO_ENTITY).sum() == 2
    model: Any = bundle.model
    logits = task.logits(model, batch)
    torch.testing.assert_close(logits, model(**model_inputs(model, batch)).logits)
    plain = {name: each for name, each in model_inputs(model, batch).items() if name != "entity_ids"}
    assert (model(**plain).logits - logits).abs().max() > 1e-6, "new heads have small weights"
    ordinary = _bundle(bert())
    encoder = TextEncoder.of(ordinary, None)
    assert not encoder.entities and not task.read([(TEXT, SECOND)], encoder).examples[0].rows[0].entities
    assert "entity_ids" not in model_inputs(ordinary.model, batch)


@pytest.mark.parametrize("longest", [8, 9, 10, 11])
def test_entities_in_what_is_cut_off_are_not_read(longest: int) -> None:
    encoder = TextEncoder.of(_bundle(knowledgeable()), None, longest)
    split = RelationClassification(LABELS).read([(TEXT, (0, len(ONE)), SECOND)], encoder)
    assert all(place < longest - 1 for place, _ in split.examples[0].rows[0].entities)
