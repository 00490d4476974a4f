"""Measures of generated texts, by hand: distinct n-grams, bits per character, ranked prompts, accuracy of classes."""

from __future__ import annotations

import math
import random

import numpy as np
import pytest

from subgraft.base.errors import UserError
from subgraft.evaluation.metrics.bits_per_character import bits_per_character, count_characters
from subgraft.evaluation.metrics.conditional_generation import TextClassifier, candidates, distinct, ranked_first
from toys import english


def test_distinct_is_the_share_of_different_n_grams_over_all_texts() -> None:
    texts = ["a b a b", "A b c"]
    assert distinct(texts, "en", 1) == pytest.approx(3 / 7)
    assert distinct(texts, "en", 2) == pytest.approx(3 / 5)  # ab, ba, bc of ab ba ab, ab bc
    assert distinct(["a"], "en", 2) == 0.0 and distinct([], "en", 1) == 0.0


def test_a_uniform_model_over_256_symbols_takes_eight_bits() -> None:
    text = ["abc def", "ghi"]
    characters = count_characters(text)
    assert characters == 10
    assert bits_per_character(characters * math.log(256), characters) == pytest.approx(8.0)


def test_characters_are_code_points_not_bytes() -> None:
    assert count_characters(["Übergrößenträger", "图书馆", ""]) == 19


def test_an_empty_text_has_no_bits_per_character() -> None:
    with pytest.raises(ValueError, match="empty text"):
        bits_per_character(1.0, 0)


SOURCES = [f"source {number % 40}" for number in range(100)]  # each more than once


def test_each_text_has_its_own_source_and_nine_others_that_differ() -> None:
    chosen = candidates(SOURCES, 10, seed=1)
    assert chosen.shape == (100, 10)
    assert chosen[:, 0].tolist() == list(range(100))
    assert all(len({SOURCES[place] for place in row}) == 10 for row in chosen)
    drawn = {SOURCES[place] for row in chosen for place in row[1:]}
    assert drawn == set(SOURCES), "every source comes up as another one"


def test_a_seed_draws_the_same_and_another_one_does_not() -> None:
    first, again, other = (candidates(SOURCES, 10, seed=seed) for seed in (1, 1, 2))
    assert (first == again).all() and (first != other).any()
    assert (candidates(SOURCES, 10, seed=1, texts=7) == first[:7]).all()


def test_of_few_sources_all_are_candidates() -> None:
    assert candidates(["bad", "good", "good"], 10, seed=1).tolist() == [[0, 1], [1, 0], [2, 0]]
    with pytest.raises(UserError, match="but one"):
        candidates(["good", "good"], 10, seed=1)


def test_the_least_nats_are_found_and_a_tie_is_shared() -> None:
    nats = np.array([[1.0, 2.0, 3.0], [2.0, 1.0, 3.0], [5.0, 5.0, 5.0], [1.0, 1.0 + 1e-5, 2.0]])
    assert ranked_first(nats).tolist() == pytest.approx([1, 0, 1 / 3, 0.5])


def test_random_likelihoods_find_a_tenth() -> None:
    nats = np.random.default_rng(1).normal(40, 5, size=(20_000, 10))
    assert ranked_first(nats).mean() == pytest.approx(0.1, abs=0.01)


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
