"""The built-in corpus as a whole: what is drawn, how often, and in which split."""

from __future__ import annotations

import re
from hashlib import sha256
from itertools import cycle, islice

import pytest

from subgraft.base.errors import UserError
from subgraft.data.sources.generated import pairs
from subgraft.data.sources.generated.corpus import Domain, Pair, draw_pairs, grammar, take
from subgraft.data.sources.generated.words import FINITE, Features, Noun

DOMAINS: tuple[Domain, ...] = ("everyday", "law")
WORD = re.compile(r"[^\W\d_]+")


@pytest.fixture(scope="module")
def train() -> dict[Domain, list[Pair]]:
    return {domain: list(pairs(domain, "train", 6_000)) for domain in DOMAINS}


@pytest.fixture(scope="module")
def unseen() -> dict[Domain, list[Pair]]:
    return {domain: [*pairs(domain, "dev", 1_000), *pairs(domain, "test", 1_000)] for domain in DOMAINS}


def nouns(domain: Domain, held_out: bool = True) -> set[str]:
    """The German nouns, in the nominative of either number."""
    words = [word for result in grammar(domain, held_out).words.values() for word in result if isinstance(word, Noun)]
    return {word.german(Features(number)) for word in words for number in (word.agreement, "p")} - {""}


@pytest.mark.parametrize("domain", DOMAINS)
def test_pairs_are_distinct_on_either_side(domain: Domain, train: dict[Domain, list[Pair]]) -> None:
    english, german = zip(*train[domain], strict=True)
    assert len(train[domain]) == len(set(english)) == len(set(german)) == 6_000


@pytest.mark.parametrize(("domain", "count"), [("everyday", 16_000), ("law", 2_500)])
def test_few_sentences_are_derived_twice(domain: Domain, count: int) -> None:
    assert len(set(islice(draw_pairs(domain, "train", 1), count))) > 0.95 * count


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
    held_out = nouns("law") - nouns("law", held_out=False)
    assert len(held_out) > 30
    assert nouns("everyday") == nouns("everyday", held_out=False)
    words = {word for domain in DOMAINS for _, german in train[domain] for word in WORD.findall(german)}
    # With -s and -n of their cases too.
    assert not [word for word in words for held in held_out if word.startswith(held)]
    with_one = sum(not held_out.isdisjoint(WORD.findall(german)) for _, german in unseen["law"][1_000:])
    assert with_one > 100


@pytest.mark.parametrize("domain", DOMAINS)
def test_sentences_are_well_formed(
    domain: Domain, train: dict[Domain, list[Pair]], unseen: dict[Domain, list[Pair]]
) -> None:
    lower = {noun.lower() for noun in nouns(domain)} - {"junge", "jungen"}
    for english, german in train[domain] + unseen[domain]:
        for side in (english, german):
            assert 4 <= len(side.split(" ")) <= 22
            assert side[0].isupper() and side[-1] in ".?"
            assert not re.search(r"  | ,|,,| [.?]|,[^ ]|\s$|[.?].*[?]|[{}~|" + FINITE + "]", side), side
        assert not re.search(r"\ba [aeio]|\ban [^aeiouh]", english), english
        assert not re.search(r"\b(in|von) dem\b|\bin das\b", german), german
        assert lower.isdisjoint(WORD.findall(german)), german


def test_sentences_of_the_law_are_longer_and_so_are_their_words(train: dict[Domain, list[Pair]]) -> None:
    words = {domain: [WORD.findall(german) for _, german in train[domain]] for domain in DOMAINS}
    lengths = {domain: sum(map(len, result)) / len(result) for domain, result in words.items()}
    long_words = {domain: sum(len(word) > 12 for result in words[domain] for word in result) for domain in DOMAINS}
    assert lengths["law"] > 1.15 * lengths["everyday"]
    assert long_words["law"] > 10 * long_words["everyday"]


def test_more_than_there_is_cannot_be_had(train: dict[Domain, list[Pair]]) -> None:
    few = train["everyday"][:50]
    assert list(take(cycle(few), "everyday", "train", 50)) == few
    with pytest.raises(UserError, match=r"no 60 distinct pairs in everyday train \(50 found\)"):
        list(take(cycle(few), "everyday", "train", 60))


@pytest.mark.slow
def test_tens_of_thousands_can_be_had() -> None:
    assert sum(1 for _ in pairs("law", "train", 20_000, seed=3)) == 20_000


@pytest.mark.parametrize(("domain", "digest"), [("everyday", "56b6ad0ae43ce529"), ("law", "90e427ecb6f354d6")])
def test_the_corpus_is_fixed(domain: Domain, digest: str, unseen: dict[Domain, list[Pair]]) -> None:
    """Results are compared over it: a change of it changes them all, and must raise corpus.VERSION."""
    text = "\n".join("\t".join(pair) for pair in unseen[domain])
    assert sha256(text.encode()).hexdigest()[:16] == digest
