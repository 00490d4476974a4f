"""What is chosen by the amount of text."""

from __future__ import annotations

import pytest

from subgraft.experiments.fit.choices import SIZES, TRAININGS, choose, choose_for_labels, vocabulary_size


def test_more_text_gets_more_steps_and_larger_vocabularies() -> None:
    steps = [choose(pairs, 7_500_000, quick=False).steps for pairs in (300, 2_000, 15_000, 50_000, 10**7)]
    assert steps == sorted(set(steps))
    sizes = [vocabulary_size(characters) for characters in (10_000, 100_000, 400_000, 2_000_000, 10**9)]
    assert sizes == sorted(set(sizes))


def test_the_tables_end_with_what_has_no_bound() -> None:
    assert TRAININGS[-1].pairs == SIZES[-1].characters == float("inf")


def test_embeddings_learn_at_four_times_the_rate_and_the_old_vocabulary_at_twice() -> None:
    choice = choose(15_000, 7_500_000, quick=False)
    assert choice.embedding_learning_rate == pytest.approx(4 * choice.learning_rate)
    assert choice.old_rate == pytest.approx(2 * choice.learning_rate)
    assert choose(15_000, 300_000_000, quick=False).learning_rate < choice.learning_rate


def test_quick_is_less_of_everything() -> None:
    quick, whole = choose(500, 1, quick=True), choose(500, 1, quick=False)
    assert len(quick.seeds) == 1 and len(whole.seeds) == 3, "three make a difference significant"
    assert quick.steps < whole.steps and quick.sentences and whole.sentences is None
    assert quick.evaluate_at[-1] == quick.steps and len(quick.evaluate_at) > 1


def test_embeddings_that_learn_from_pairs_are_for_tasks_with_pairs() -> None:
    assert choose(2_000, 1, tokens_ratio=0.6, quick=False).initialiser == "vocadt"
    assert choose(2_000, 1, tokens_ratio=0.6, excluded={"vocadt"}, quick=False).initialiser == "mean"
    assert choose_for_labels(2_000, 1, quick=False).initialiser == "mean"
