"""A model that reads entities reads those that a task marks in its texts, if it knows them by name."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from entities import knowledgeable, names
from subgraft.data.tasks.entities import ENTITY_TOKENS
from subgraft.modeling.bundle import Bundle
from subgraft.modeling.families import NO_ENTITY, InputLayout
from subgraft.modeling.heads import with_head
from subgraft.subwords.vocabulary.alignment import align
from subgraft.subwords.vocabulary.learn import learn
from subgraft.subwords.vocabulary.tokenizer import Tokenizer
from subgraft.training.understanding.inputs import TextEncoder, model_inputs
from subgraft.training.understanding.sequences import EntityTyping, RelationClassification, insert_marks
from toys import SHAPE, bert, build_bert, cased_tokenizer, english

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
    text, entities = insert_marks("Oslo in Norway", [((8, 14), "#"), ((0, 4), "@")])
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


def with_tokens() -> Tokenizer:
    """A vocabulary with the tokens that Tsinghua's ERNIE marks entities by."""
    return learn(english(200), kind="wordpiece", size=120, mask=True, languages=ENTITY_TOKENS)


def test_the_tokens_of_a_vocabulary_mark_entities_as_a_whole() -> None:
    """Zhang et al. 2019, section 3.5: [HD] and [TL] around head and tail, [ENT] around an entity to be typed."""
    tokenizer = with_tokens()
    model = build_bert(tokenizer, seed=1, **SHAPE)
    bundle = Bundle(with_head(model, "sequence", LABELS, 1), tokenizer, tokenizer)
    encoder = TextEncoder.of(bundle, None)
    head, tail, entity = (tokenizer.pieces.index(token) for token in ENTITY_TOKENS)
    words = [tokenizer.encode(word) for word in TEXT.split()]
    begin, end = list(encoder.layout.begin), list(encoder.layout.end)
    split = RelationClassification(LABELS).read([(TEXT, SECOND, (0, len(ONE)))], encoder)
    expected = [*begin, tail, *words[0], tail, *words[1], head, *words[2], head, *end]
    assert split.examples[0].rows[0].tokens.tolist() == expected
    assert split.texts == [f"[TL] {ONE} [TL] unknownword [HD] {TWO} [HD]"]
    typed = EntityTyping(LABELS).read([(TEXT, SECOND), (TEXT, None)], encoder)
    assert typed.examples[0].rows[0].tokens.tolist() == [*begin, *words[0], *words[1], entity, *words[2], entity, *end]
    assert typed.examples[1].rows[0].tokens.tolist() == [*begin, *words[0], *words[1], *words[2], *end]
    spelled = tokenizer.encode("[HD] of a text")
    assert head not in spelled, "text that spells a token does not mark anything"


def test_marks_are_around_whole_tokens_and_nested_spans_and_entities_stay_at_theirs() -> None:
    tokenizer = with_tokens()
    (head, tail, _) = (tokenizer.pieces.index(token) for token in ENTITY_TOKENS)
    known = {ONE: 7, TEXT[: len(ONE) + 12]: 9}
    layout = InputLayout((2,), (3,), (3,), True, 64)
    encoder = TextEncoder(tokenizer, layout, 64, 0, known)
    outer = (0, len(ONE) + 12)
    (example,) = RelationClassification(LABELS).read([(TEXT, outer, (1, len(ONE)))], encoder).examples
    (row,) = example.rows
    first = len(tokenizer.encode(ONE))
    tokens = row.tokens.tolist()
    assert tokens[:3] == [2, head, tail] and tokens[3 + first] == tail
    assert row.entities == ((3, 9),), "the longer one of two at a token"
    assert tokens.count(head) == tokens.count(tail) == 2
    short = TextEncoder(tokenizer, layout, 5, 0, known)
    (cut,) = RelationClassification(LABELS).read([(TEXT, SECOND, (0, len(ONE)))], short).examples
    assert (
        cut.rows[0].truncated and len(cut.rows[0].tokens) == 5 and all(place < 4 for place, _ in cut.rows[0].entities)
    )


def test_a_vocabulary_like_another_one_has_its_tokens_for_marks() -> None:
    upstream = with_tokens()
    task = learn(english(200), kind="wordpiece", size=110, like=upstream)
    assert set(ENTITY_TOKENS) <= {task.pieces[token] for token in task.special_ids}
    aligned = align(upstream, task)
    for token in ENTITY_TOKENS:
        assert aligned.origins[task.pieces.index(token)] == upstream.pieces.index(token)
    plain = learn(english(200), kind="wordpiece", size=110)
    assert not set(ENTITY_TOKENS) & set(plain.pieces)
