"""A text is distinguished from one in the other language of the pairs, and from one in neither."""

from __future__ import annotations

import math

import pytest

from subgraft.data.sources import generated
from subgraft.data.text.language_id import Sample, TrigramModel, Verdict, similarity

DOMAINS = {domain: list(zip(*generated.pairs(domain, "train", 1000, 1), strict=True)) for domain in ("law", "everyday")}
FINNISH = [
    "Kaikki ihmiset syntyvät vapaina ja tasavertaisina arvoltaan ja oikeuksiltaan.",
    "Heille on annettu järki ja omatunto, ja heidän on toimittava toisiaan kohtaan veljeyden hengessä.",
]


def sample(domain: str, side: int) -> Sample:
    lines = DOMAINS[domain][side]
    return Sample(lines[:800], lines[800:])


@pytest.mark.parametrize("side", [0, 1])
@pytest.mark.parametrize(("pairs", "text"), [("law", "law"), ("law", "everyday"), ("everyday", "law")])
def test_a_language_is_known_in_its_domain_and_in_another(pairs: str, text: str, side: int) -> None:
    own, other = sample(pairs, side), sample(pairs, 1 - side)
    assert similarity(DOMAINS[text][side][800:900], own, other).verdict is Verdict.OWN
    result = similarity(DOMAINS[text][1 - side][800:900], own, other)
    assert result.verdict is Verdict.OTHER
    assert result.example in DOMAINS[text][1 - side]
    assert similarity(FINNISH, own, other).verdict is Verdict.NEITHER


def test_within_one_language_what_is_far_from_it_is_neither() -> None:
    assert similarity(DOMAINS["everyday"][0][:100], sample("everyday", 0), None).verdict is Verdict.OWN
    assert similarity(["Всички хора се раждат свободни."], sample("everyday", 0), None).verdict is Verdict.NEITHER


def test_trigrams_are_probabilities_of_the_next_character() -> None:
    model = TrigramModel.of(["abab", "abc"])
    # Behind "ab", a comes once of two times; behind "b", a once of two; and of 7 characters 3 are a.
    expected = 0.6 / 2 + 0.3 / 2 + 0.09 * 3 / 7 + 0.01 / 2**16
    assert model.bits("aba") - model.bits("ab") == pytest.approx(-math.log2(expected))
    assert model.bits_per_character(["ab", "ab"]) == pytest.approx(model.bits("ab") / 2)
    assert model.bits_per_character([]) == 0
