"""ERNIE 3's knowledge-text prediction: either a relation is hidden as a whole, or words of the text."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy.stats import chisquare

from entities import knowledgeable
from subgraft.base.errors import UserError
from subgraft.contrib.ernie3.knowledge_text import AROUND, KnowledgeTexts
from subgraft.contrib.ernie3.objective import KnowledgeTextSettings
from subgraft.training.objectives.compute.embedding_view import IGNORED
from subgraft.training.objectives.compute.single_stack import StackLoss
from toys import cased_tokenizer, english

LINES = english(40)
CLS, SEP, MASK = 2, 3, 4


def _triples(line: str) -> list[list[str]]:
    """The first word of a line, its second and third, and its last; nothing for short lines."""
    words = line.split()
    return [[words[0], " ".join(words[1:3]), words[-1]]] if len(words) > 3 else []


STATED = [(line, *_triples(line)[0]) for line in LINES if _triples(line)]


def _texts(max_length: int = 64, **settings: Any) -> KnowledgeTexts:
    chosen = KnowledgeTextSettings(**settings)
    return KnowledgeTexts(LINES, [_triples(line) for line in LINES], cased_tokenizer(), chosen, max_length, seed=1)


def _whole(place: int) -> tuple[list[int], slice, int]:
    """An example without hidden tokens, where its relation is, and where its text begins."""
    line, *parts = STATED[place]
    head, relation, tail, text = map(cased_tokenizer().encode, (*parts, line))
    begins = 1 + len(head)
    before = [CLS, *head, *relation, *tail, SEP]
    return [*before, *text, SEP], slice(begins, begins + len(relation)), len(before)


def test_the_relation_is_hidden_as_a_whole_or_words_of_the_text_are() -> None:
    texts = _texts()
    assert len(texts) == len(STATED) < len(LINES)
    counts = np.zeros(2)
    for epoch in range(40):
        for place in range(len(texts)):
            example, (whole, relation, begins) = texts.example(place, epoch), _whole(place)
            assert len(example.tokens) == len(whole) == texts.lengths[place]
            hidden = [at for at, label in enumerate(example.labels) if label != IGNORED]
            assert all(example.labels[at] == whole[at] for at in hidden)
            assert all(example.tokens[at] == whole[at] for at in range(len(whole)) if at not in hidden)
            of_relation = hidden[0] < begins
            counts[int(of_relation)] += 1
            if of_relation:
                assert hidden == list(range(*relation.indices(len(whole))))
                assert all(example.tokens[at] == MASK for at in hidden)
            else:
                assert len(hidden) == max(1, round(0.15 * (len(whole) - begins - 1)))
                assert begins <= min(hidden) and max(hidden) < len(whole) - 1
    assert chisquare(counts).pvalue > 1e-3


def test_examples_are_functions_of_seed_epoch_and_index() -> None:
    assert _texts().example(2, 5) == _texts().example(2, 5)
    assert len({tuple(_texts().example(2, epoch).labels) for epoch in range(20)}) > 3


def test_the_loss_is_the_models_with_labels() -> None:
    model, batch = knowledgeable(max_positions=64), _texts().batch(np.arange(6), 0)
    own = model(input_ids=batch.input_ids, attention_mask=batch.attention_mask, labels=batch.labels).loss
    assert StackLoss(model)(batch)["loss"].item() / batch.counts["loss"] == pytest.approx(own.item(), rel=1e-6)


def test_a_text_is_cut_to_what_its_triple_leaves() -> None:
    longest = max(_whole(place)[2] for place in range(len(STATED))) + 3
    texts = _texts(longest)
    assert texts.lengths.max() == longest
    for place in range(len(texts)):
        assert len(texts.example(place, 0).tokens) == texts.lengths[place] <= longest
        assert texts.example(place, 0).tokens[-1] == SEP
    with pytest.raises(UserError, match=rf"leaves no room for a text in {AROUND + 4} tokens"):
        _texts(AROUND + 4)
    with pytest.raises(UserError, match="no text states a triple"):
        KnowledgeTexts(LINES, [[] for _ in LINES], cased_tokenizer(), KnowledgeTextSettings(), 64, seed=1)
