"""The classifier that labels texts which were written for a class."""

from __future__ import annotations

import random

import pytest

from subgraft.base.errors import UserError
from subgraft.evaluation.metrics.conditional_generation import TextClassifier
from toys import english


def _classed(count: int, seed: int) -> tuple[list[str], list[str]]:
    """Sentences with a word that says the class, among others that say nothing."""
    labels = [("bad", "good")[number % 2] for number in range(count)]
    lines = english(count, seed)
    return [
        f"{line} {'awful' if label == 'bad' else 'fine'} ." for line, label in zip(lines, labels, strict=True)
    ], labels


def test_it_knows_classes_by_their_words_and_shuffled_labels_tell_it_nothing() -> None:
    judge = TextClassifier(*_classed(200, 1), "en")
    texts, labels = _classed(200, 2)
    assert judge.agreement(texts, labels) == 1.0
    assert judge.agreement(["so awful", "so fine"], ["good", "bad"]) == 0.0
    trained, classes = _classed(400, 3)
    random.Random(1).shuffle(classes)
    assert 0.35 < TextClassifier(trained, classes, "en").agreement(texts, labels) < 0.65


def test_text_that_knows_no_class_adheres_by_chance() -> None:
    _, labels = _classed(400, 4)
    assert 0.35 < TextClassifier(*_classed(200, 1), "en").agreement(english(400, 5), labels) < 0.65


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize(("language", "texts"), [("en", ["good day", "bad day"]), ("zh", ["很好", "很坏"])])
def test_words_are_those_of_the_language(language: str, texts: list[str]) -> None:
    assert TextClassifier(texts * 4, ["good", "bad"] * 4, language).agreement(texts, ["good", "bad"]) == 1.0


@pytest.mark.parametrize(
    ("texts", "labels", "message"),
    [(["a"], ["x"], "needs two classes"), (["", ""], ["x", "y"], "no classifier can be")],
)
def test_classes_that_cannot_be_learnt_are_refused(texts: list[str], labels: list[str], message: str) -> None:
    with pytest.raises(UserError, match=message):
        TextClassifier(texts, labels, "en")
