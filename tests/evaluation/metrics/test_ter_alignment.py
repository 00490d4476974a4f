"""Labels of tokens by TER: the example of its paper, and sacrebleu's own counts of edits."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st
from sacrebleu.metrics.lib_ter import BeamEditDistance

from subgraft.evaluation.metrics.calibration import _Distances, correct_tokens

IDS = st.lists(st.integers(0, 4), max_size=12)


def numbered(*sentences: str) -> list[list[int]]:
    """Token ids of sentences over the vocabulary of all their words."""
    vocabulary = sorted({word for sentence in sentences for word in sentence.split()})
    return [[vocabulary.index(word) for word in sentence.split()] for sentence in sentences]


def test_the_example_of_snover_2006() -> None:
    # "this week" is shifted, "the saudis" stands for "saudi arabia", "american" is missing.
    hypothesis = "this week the saudis denied information published in the new york times"
    reference = "saudi arabia denied this week information published in the american new york times"
    assert correct_tokens(*numbered(hypothesis, reference)) == [True, True, False, False, *[True] * 8]


def test_inserted_and_substituted_tokens_are_wrong() -> None:
    assert correct_tokens([1, 9, 2, 3], [1, 2, 3]) == [True, False, True, True]
    assert correct_tokens([1, 9, 3], [1, 2, 3]) == [True, False, True]
    assert correct_tokens([1, 3], [1, 2, 3]) == [True, True]


def test_a_shifted_token_is_right_at_its_own_place() -> None:
    assert correct_tokens([4, 5, 9, 1, 2, 3], [1, 2, 3, 4, 5, 6]) == [True, True, False, True, True, True]


def test_empty_sides() -> None:
    assert correct_tokens([], [1]) == []
    assert correct_tokens([1, 2], []) == [False, False]


@settings(max_examples=150, deadline=None)
@given(output=IDS, reference=st.lists(st.integers(0, 4), min_size=1, max_size=12))
def test_distances_are_those_of_the_table(output: list[int], reference: list[int]) -> None:
    assert _Distances(reference).distance(output) == BeamEditDistance(reference)(output)[0]


@settings(max_examples=60, deadline=None)
@given(output=IDS, reference=IDS)
def test_right_tokens_are_found_in_the_reference(output: list[int], reference: list[int]) -> None:
    labels = correct_tokens(output, reference)
    assert len(labels) == len(output)
    for token in set(output):
        right = sum(label for label, other in zip(labels, output, strict=True) if other == token)
        assert right <= reference.count(token)
    if output == reference:
        assert all(labels)
