"""Compounds and derivations, and what the lexicon holds of them."""

from __future__ import annotations

from collections import Counter

import pytest

from subgraft.text.generated.compounds import build, derived, linked
from subgraft.text.generated.everyday_nouns import NOUNS
from subgraft.text.generated.everyday_verbs import (
    DATIVE_VERBS,
    DITRANSITIVE,
    INTRANSITIVE,
    MOTION,
    PREPOSITIONAL,
    TRANSITIVE,
)
from subgraft.text.generated.everyday_words import ADJECTIVES, PLACES
from subgraft.text.generated.law_compounds import COMPOUNDS
from subgraft.text.generated.law_usage import COMPANIES, LAW_VERBS, SURNAMES, TOWNS
from subgraft.text.generated.law_words import DERIVED, LAW_ADJECTIVES, LOANS, SIMPLE

EVERYDAY_VERBS = (*TRANSITIVE, *DITRANSITIVE, *PREPOSITIONAL, *DATIVE_VERBS, *INTRANSITIVE, *MOTION)


def everyday_nouns() -> dict[str, str]:
    """German to English."""
    found = {noun.german: noun.english for nouns in NOUNS.values() for noun in nouns}
    return found | {place[0].german: place[0].english for place in PLACES}


@pytest.mark.parametrize(
    ("word", "stated", "expected"),
    [
        ("Kündigung", "", "Kündigungs"),
        ("Krankheit", "", "Krankheits"),
        ("Gesellschaft", "", "Gesellschafts"),
        ("Eigentum", "", "Eigentums"),
        ("Vertrag", "Vertrags", "Vertrags"),
        ("Kauf", "", "Kauf"),
    ],
)
def test_linking_elements(word: str, stated: str, expected: str) -> None:
    assert linked(word, stated) == expected


@pytest.mark.parametrize(
    ("base", "suffix", "expected"),
    [
        ("kündigen", "ung", "Kündigung"),
        ("verhandeln", "ung", "Verhandlung"),
        ("kündigen", "bar", "kündbar"),
        ("kündigen", "un+bar", "unkündbar"),
        ("kündigen", "un+barkeit", "Unkündbarkeit"),
        ("Frist", "los", "fristlos"),
        ("Vertrag", "lich", "vertraglich"),
        ("Zahlung", "pflichtig", "zahlungspflichtig"),
        ("wirksam", "keit", "Wirksamkeit"),
    ],
)
def test_derivation(base: str, suffix: str, expected: str) -> None:
    assert derived(base, suffix) == expected


def test_a_compound_is_a_part_of_further_compounds() -> None:
    heads = """
Vertrag,Vertrags | m | Verträge | ~ contract | agreement | Kauf
Verletzung | f | Verletzungen | breach of the ~/breaches of the ~ | breach | Kaufvertrag
"""
    contract, breach = build("Kauf | purchase", heads)
    assert (contract.noun.german, contract.noun.english) == ("Kaufvertrag", "purchase contract")
    assert (breach.noun.german, breach.noun.plural) == ("Kaufvertragsverletzung", "Kaufvertragsverletzungen")
    assert breach.noun.english_plural == "breaches of the purchase contract"
    assert breach.noun.gender == "f"


@pytest.mark.parametrize(
    ("german", "english"),
    [
        ("Schadensersatzpflicht", "obligation to pay damages"),
        ("Mietvertrag", "rental contract"),
        ("Kaufvertragsverletzung", "breach of the purchase contract"),
        ("Haftungsbeschränkung", "limitation of liability"),
        ("Zahlungsfrist", "payment deadline"),
        ("Preiserhöhungsklausel", "price increase clause"),
        ("Kündigungsschutzgesetz", "dismissal protection act"),
    ],
)
def test_compounds_of_the_law(german: str, english: str) -> None:
    found = {compound.noun.german: compound.noun.english for compound in COMPOUNDS}
    assert found[german] == english


def test_whatever_is_built_on_a_held_out_compound_is_held_out() -> None:
    held_out = {compound.noun.german: compound.held_out for compound in COMPOUNDS}
    for compound in COMPOUNDS:
        assert compound.held_out or not held_out.get(compound.first, False), compound.noun.german
    assert 0.10 < sum(held_out.values()) / len(held_out) < 0.20


def test_the_lexicon_is_broad_enough() -> None:
    verbs = {verb.prefix + verb.infinitive for verb in EVERYDAY_VERBS}
    adjectives = {adjective.german for words in ADJECTIVES.values() for adjective in words}
    assert len(everyday_nouns()) + len(verbs) + len(adjectives) >= 350
    assert len({compound.noun.german for compound in COMPOUNDS}) >= 200


def test_most_words_of_the_law_are_composed_and_a_share_is_not() -> None:
    composed = {compound.noun.german for compound in COMPOUNDS}
    composed |= {noun.german for nouns in DERIVED.values() for noun in nouns}
    loans = {noun.german for nouns in LOANS.values() for noun in nouns}
    simple = {noun.german for nouns in SIMPLE.values() for noun in nouns} - set(everyday_nouns())
    adjectives = {adjective.german for words in LAW_ADJECTIVES.values() for adjective in words}
    names = {name.split()[0] for name in (*COMPANIES, *SURNAMES, *TOWNS)}
    further = composed | loans | simple | adjectives | names
    assert len(further) >= 300
    assert 0.15 <= len(loans | names) / len(further) <= 0.20


def test_words_translate_one_to_one() -> None:
    tables = (*SIMPLE.values(), *LOANS.values(), *DERIVED.values())
    law = {noun.german: noun.english for nouns in tables for noun in nouns}
    law |= {compound.noun.german: compound.noun.english for compound in COMPOUNDS}
    everyday = everyday_nouns()
    for words in (everyday, law):
        repeated = [english for english, count in Counter(words.values()).items() if count > 1]
        assert not repeated
    for german in everyday.keys() & law.keys():
        assert everyday[german] == law[german], german


def test_verbs_have_one_participle() -> None:
    found: dict[str, str] = {}
    for verb in (*EVERYDAY_VERBS, *LAW_VERBS):
        assert found.setdefault(verb.prefix + verb.infinitive, verb.participle) == verb.participle
