"""The built-in corpus as a whole: what is drawn, how often, and in which split."""

from __future__ import annotations

import re
import time
from hashlib import sha256
from itertools import cycle

import pytest

from subgraft.errors import UserError
from subgraft.text.generated import capacity, held_out_compounds, pairs
from subgraft.text.generated.corpus import Domain, Pair, take
from subgraft.text.generated.everyday_nouns import NOUNS
from subgraft.text.generated.law_compounds import COMPOUNDS
from subgraft.text.generated.law_words import DERIVED, LOANS, SIMPLE

DOMAINS: tuple[Domain, ...] = ("everyday", "law")
WORD = re.compile(r"[^\W\d_]+")


@pytest.fixture(scope="module")
def train() -> dict[Domain, list[Pair]]:
    return {domain: list(pairs(domain, "train", 20_000)) for domain in DOMAINS}


@pytest.fixture(scope="module")
def unseen() -> dict[Domain, list[Pair]]:
    return {domain: [*pairs(domain, "dev", 1_000), *pairs(domain, "test", 1_000)] for domain in DOMAINS}


@pytest.mark.parametrize("domain", DOMAINS)
def test_pairs_are_distinct_on_either_side(domain: Domain, train: dict[Domain, list[Pair]]) -> None:
    english, german = zip(*train[domain], strict=True)
    assert len(train[domain]) == len(set(english)) == len(set(german)) == 20_000


@pytest.mark.parametrize("domain", DOMAINS)
def test_a_draw_depends_on_its_arguments_alone(domain: Domain, train: dict[Domain, list[Pair]]) -> None:
    assert list(pairs(domain, "train", 300)) == train[domain][:300]
    assert list(pairs(domain, "train", 300, seed=2)) != train[domain][:300]


@pytest.mark.parametrize("domain", DOMAINS)
def test_splits_share_no_sentence_on_either_side(
    domain: Domain, train: dict[Domain, list[Pair]], unseen: dict[Domain, list[Pair]]
) -> None:
    dev, test = unseen[domain][:1_000], unseen[domain][1_000:]
    other_seed = list(pairs(domain, "train", 2_000, seed=7))
    for side in (0, 1):
        held = {pair[side] for pair in train[domain] + other_seed}
        assert held.isdisjoint(pair[side] for pair in unseen[domain])
        assert {pair[side] for pair in dev}.isdisjoint(pair[side] for pair in test)


def test_held_out_compounds_are_never_in_train_and_often_in_test(
    train: dict[Domain, list[Pair]], unseen: dict[Domain, list[Pair]]
) -> None:
    held_out = held_out_compounds("law")
    assert not held_out_compounds("everyday")
    words = sorted({word.lower() for domain in DOMAINS for _, german in train[domain] for word in WORD.findall(german)})
    # Not even inside of a longer word.
    assert not [word for word in words if any(held.lower() in word for held in held_out)]
    with_one = sum(not held_out.isdisjoint(WORD.findall(german)) for _, german in unseen["law"][1_000:])
    assert with_one >= 400


def test_the_parts_of_held_out_compounds_are_in_train(train: dict[Domain, list[Pair]]) -> None:
    seen = " ".join(german.lower() for domain in DOMAINS for _, german in train[domain])
    held_out = {compound.noun.german: compound for compound in COMPOUNDS if compound.held_out}
    for compound in held_out.values():
        # What is built on another compound that is held out has the parts of that one.
        if compound.first not in held_out:
            assert compound.first.lower() in seen, compound.noun.german
        assert compound.last.lower() in seen, compound.noun.german


@pytest.mark.parametrize("domain", DOMAINS)
def test_sentences_are_well_formed(
    domain: Domain, train: dict[Domain, list[Pair]], unseen: dict[Domain, list[Pair]]
) -> None:
    for pair in train[domain] + unseen[domain]:
        for side in pair:
            assert 4 <= len(side.split(" ")) <= 22
            assert side[0].isupper() and side[-1] in ".?"
            assert not re.search(r"  | ,|,,| \.|,\.|\s$|[.?].*[?]", side), side


@pytest.mark.parametrize("domain", DOMAINS)
def test_german_nouns_are_capitalised(domain: Domain, unseen: dict[Domain, list[Pair]]) -> None:
    tables = (NOUNS, SIMPLE, LOANS, DERIVED)
    nouns = {noun.german for table in tables for found in table.values() for noun in found}
    nouns |= {compound.noun.german for compound in COMPOUNDS}
    assert all(noun[0].isupper() and noun[1:].islower() for noun in nouns)
    # What is also a word of another kind when it is not capitalised.
    lower = {noun.lower() for noun in nouns} - {"junge"}
    for _, german in unseen[domain]:
        assert lower.isdisjoint(WORD.findall(german)), german


def test_sentences_of_the_law_are_longer_and_so_are_their_words(train: dict[Domain, list[Pair]]) -> None:
    words = {domain: [WORD.findall(german) for _, german in train[domain]] for domain in DOMAINS}
    lengths = {domain: sum(map(len, found)) / len(found) for domain, found in words.items()}
    long_words = {domain: sum(len(word) > 12 for found in words[domain] for word in found) for domain in DOMAINS}
    assert lengths["law"] > 1.25 * lengths["everyday"]
    assert long_words["law"] > 10 * long_words["everyday"]


def test_capacity() -> None:
    assert capacity("everyday") > 60_000
    assert capacity("law") > 40_000


def test_more_than_there_is_cannot_be_had(train: dict[Domain, list[Pair]]) -> None:
    few = train["everyday"][:50]
    assert list(take(cycle(few), "everyday", "train", 50)) == few
    with pytest.raises(UserError, match=r"no 60 distinct pairs in everyday train \(50 found\)"):
        list(take(cycle(few), "everyday", "train", 60))


def test_it_is_quick() -> None:
    started = time.process_time()
    assert sum(1 for _ in pairs("law", "train", 20_000, seed=3)) == 20_000
    # About a second and a half; twice the bound of three, for machines that are busy.
    assert time.process_time() - started < 6


@pytest.mark.parametrize(("domain", "digest"), [("everyday", "587b833738969b29"), ("law", "16ffcce50d5b55a4")])
def test_the_corpus_is_fixed(domain: Domain, digest: str, unseen: dict[Domain, list[Pair]]) -> None:
    """Results are compared over it: whoever changes it, changes them all, and has to say so here."""
    text = "\n".join("\t".join(pair) for pair in unseen[domain])
    assert sha256(text.encode()).hexdigest()[:16] == digest
