"""METEOR on examples worked by hand from its equations."""

from __future__ import annotations

from itertools import permutations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from subgraft.evaluation.metrics.meteor import Alignment, align, count_chunks, sentence_meteor, signature

REFERENCE = "the cat sat on the mat"


def test_equal_sentences_lose_only_the_penalty_of_one_chunk() -> None:
    assert sentence_meteor(REFERENCE, REFERENCE, "en") == pytest.approx(1 - 0.5 * (1 / 6) ** 3)


def test_a_word_too_many() -> None:
    # Precision 6/7, recall 1, two chunks of six matches.
    mean = (6 / 7) / (0.9 * 6 / 7 + 0.1)
    expected = mean * (1 - 0.5 * (2 / 6) ** 3)
    assert expected == pytest.approx(0.9654, abs=5e-5)
    assert sentence_meteor("the cat was sat on the mat", REFERENCE, "en") == pytest.approx(expected)


def test_stems_match_where_the_language_has_a_stemmer() -> None:
    # Four equal words and one equal stem of six; "the cats sat on" and "mat".
    expected = 5 / 6 * (1 - 0.5 * (2 / 5) ** 3)
    assert sentence_meteor("the cats sat on the mat", "the cat sat on a mat", "en") == pytest.approx(expected)
    # Without one, four words of six in three chunks.
    expected = 4 / 6 * (1 - 0.5 * (3 / 4) ** 3)
    assert sentence_meteor("the cats sat on the mat", "the cat sat on a mat", "") == pytest.approx(expected)


def test_of_two_equal_words_the_one_that_makes_fewer_chunks_is_taken() -> None:
    mean = 0.4 / (0.9 + 0.1 * 0.4)
    expected = mean * (1 - 0.5 * (1 / 2) ** 3)
    assert sentence_meteor("the cat", "the cat saw the dog", "en") == pytest.approx(expected)


def test_chinese_is_compared_by_characters_and_without_stems() -> None:
    assert sentence_meteor("我们看书", "我们看书", "zh") == pytest.approx(1 - 0.5 * (1 / 4) ** 3)
    assert "tok:zh|modules:exact|" in signature("zh")


def test_the_signature_names_the_modules() -> None:
    assert "modules:exact,stem(snowball-french)" in signature("fr_XX")
    assert "modules:exact|" in signature("xx")


def test_no_match_scores_zero() -> None:
    assert [sentence_meteor(a, b, "en") for a, b in [("a", "b"), ("", "b"), ("a", ""), ("", "")]] == [0, 0, 0, 0]


def _all_alignments(output: list[str], reference: list[str]) -> list[Alignment]:
    """Every alignment of equal words with the most matches, by trying all."""
    places = [*range(len(reference)), *[None] * len(output)]
    alignments = set(permutations(places, len(output)))
    legal = [a for a in alignments if all(p is None or output[i] == reference[p] for i, p in enumerate(a))]
    most = max(sum(p is not None for p in a) for a in legal)
    return [a for a in legal if sum(p is not None for p in a) == most]


@settings(max_examples=25, deadline=None)
@given(
    output=st.lists(st.sampled_from("ab"), min_size=1, max_size=4),
    reference=st.lists(st.sampled_from("abc"), max_size=4),
)
def test_alignments_have_the_most_matches_and_the_fewest_chunks(output: list[str], reference: list[str]) -> None:
    best = _all_alignments(output, reference)
    alignment = align(output, reference, None)
    assert alignment in best
    assert count_chunks(alignment) == min(map(count_chunks, best))


def test_repeated_words_cost_no_more_than_others() -> None:
    """A decoder that loops writes thousands of equal words: each position is not tried for each of them."""
    looped = "the cat " * 1000
    assert sentence_meteor(looped, looped, "en") == pytest.approx(1, abs=1e-6)
    assert 0 < sentence_meteor(looped, "cat sat the " * 500, "en") < 1
