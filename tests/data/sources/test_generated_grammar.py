"""What the notation of a grammar means: agreement, order and negation, by sentences written down by hand."""

from __future__ import annotations

from random import Random

import pytest

from subgraft.data.sources.generated.corpus import format_sentence
from subgraft.data.sources.generated.grammar import Grammar
from subgraft.data.sources.generated.words import Features

WORDS = """
determiner the: the | der
determiner a: a | ein
name anna: Anna f
name they: they | sie p
noun man: man/men | Mann m ¨er
noun woman: woman/women | Frau f -en
noun apple: apple | Apfel m ¨
noun house: house | Haus n ¨er
adjective old.house old.man old.woman: old | alt
adjective old.apple: expensive | teuer teur
verb read: read, read, read | lesen liest las gelesen
verb buy: buy, bought, bought | kaufen
verb fetch: pick up, picked up, picked up | ab-holen
verb go: go, went, gone | gehen geht ging gegangen*
verb help: help | helfen hilft half geholfen
verb try: try | versuchen
verb become: be, was, been | werden wird wurde worden*
modal can: can | können kann konnte gekonnt
rule The.X: {the} {X}
rule Many.X: {the} {old.X} {X:p}
rule A.X: {a} {old.X} {X}
rule Buys: {anna} {buy} {The.apple} | {anna:n} {The.apple:a} {not} {buy}
rule Bought: {anna} {buy:past} {The.apple} | {anna:n} {The.apple:a} {not} {buy:perfect}
rule Fetches: {Many.man} {fetch} {The.woman} | {Many.man:n} {The.woman:a} {fetch}
rule Fetched: {Many.man} {fetch:past} {The.woman} | {Many.man:n} {The.woman:a} {fetch:perfect}
rule Who: who {buy:past} {A.house} | {rel:n} {A.house:a} {buy:perfect}
rule Whom: that {anna} {help:past} | {rel:d} {anna:n} {help:perfect}
rule VP: {buy} {A.apple} | {A.apple:a} {not} {buy}
rule Trying: {try} to {VP:bare} | {not} {try}, {VP:zu}
rule Known: {the} {man} {Who} | {the} {man}, {Who:last},
rule Helped: {the} {woman} {Whom} | {the} {woman}, {Whom:last},
"""


def sentence(rule: str) -> tuple[str, str]:
    phrase = Grammar(f"{WORDS}rule S: {rule}").derive("S", Random(0))
    return format_sentence(phrase.english(Features())), format_sentence(phrase.german(Features()))


@pytest.mark.parametrize(
    ("rule", "english", "german"),
    [
        ("{Buys}.", "Anna buys the apple.", "Anna kauft den Apfel."),
        ("{Bought}.", "Anna bought the apple.", "Anna hat den Apfel gekauft."),
        ("now {Buys}. | jetzt {Buys:first}.", "Now Anna buys the apple.", "Jetzt kauft Anna den Apfel."),
        ("if {Buys}. | wenn {Buys:last}.", "If Anna buys the apple.", "Wenn Anna den Apfel kauft."),
        ("if {Bought}. | wenn {Bought:last}.", "If Anna bought the apple.", "Wenn Anna den Apfel gekauft hat."),
        ("{Fetches}.", "The old men pick up the woman.", "Die alten Männer holen die Frau ab."),
        (
            "as {Fetches}. | da {Fetches:last}.",
            "As the old men pick up the woman.",
            "Da die alten Männer die Frau abholen.",
        ),
        ("{Fetched}.", "The old men picked up the woman.", "Die alten Männer haben die Frau abgeholt."),
        ("{they} {go:past} | {they:n} in {The.house:a} {go:perfect}", "They went", "Sie sind ins Haus gegangen"),
        ("in {A.house} | in {A.house:d}", "In an old house", "In einem alten Haus"),
        ("of {Many.house} | {Many.house:g}", "Of the old houses", "Der alten Häuser"),
        ("for {A.apple} | für {A.apple:a}", "For an expensive apple", "Für einen teuren Apfel"),
        (
            "{anna} {can} {VP:bare} | {anna:n} {VP:bare} {can}",
            "Anna can buy an expensive apple",
            "Anna kann einen teuren Apfel kaufen",
        ),
        (
            "{they} {can} {VP:bare} | {they:n} {VP:bare:not} {can}",
            "They can buy an expensive apple",
            "Sie können keinen teuren Apfel kaufen",
        ),
        (
            "{they} {Trying:past} | {they:n} {Trying:perfect:not}",
            "They tried to buy an expensive apple",
            "Sie haben nicht versucht, einen teuren Apfel zu kaufen",
        ),
        (
            "{The.apple} {can} be {buy:participle} | {The.apple:n} {buy:participle} {become:bare} {can}",
            "The apple can be bought",
            "Der Apfel kann gekauft werden",
        ),
        (
            "{Known} {help} {they}. | {Known:n} {they} {help}.",
            "The man who bought an old house helps they.",
            "Der Mann, der ein altes Haus gekauft hat, hilft sie.",
        ),
        ("of {Helped}. | {Helped:g}.", "Of the woman that Anna helped.", "Der Frau, der Anna geholfen hat."),
    ],
)
def test_a_rule_says(rule: str, english: str, german: str) -> None:
    assert sentence(rule) == (english, german)


def test_negation_is_said_once() -> None:
    assert sentence("{anna} | {anna:n} {VP:not}")[1] == "Anna kauft keinen teuren Apfel"
    assert sentence("{anna} | {anna:n} {The.apple:a} nicht {buy}")[1] == "Anna kauft den Apfel nicht"
    negated = Grammar(WORDS + "rule Do: {buy} | {The.apple:a} {not} {buy}\nrule S: {anna} | {anna:n} {Do:perfect:not}")
    assert format_sentence(negated.derive("S", Random(0)).german(Features())) == "Anna hat den Apfel nicht gekauft"


def test_places_of_one_name_share_what_they_derive() -> None:
    grammar = Grammar("word x: a1; b1; c1; d1; e1\nrule S: {x} {x2} {x} | {x2} {x}")
    rng, unlike = Random(1), 0
    for _ in range(50):
        phrase = grammar.derive("S", rng)
        first, second, again = phrase.english(Features()).split()
        assert first == again
        assert phrase.german(Features()) == f"{second} {first}"
        unlike += first != second
    assert unlike > 25


def test_weights_are_kept() -> None:
    grammar = Grammar("rule S\n  9 often\n  seldom")
    rng = Random(0)
    drawn = [grammar.derive("S", rng).english(Features()) for _ in range(2_000)]
    assert 0.87 < drawn.count("often") / 2_000 < 0.93


def test_compounds_join_first_parts_and_heads_and_one_of_eight_is_held_out() -> None:
    text = """
modifier deal: Kauf purchase; Miet rental; Bau construction; Reise travel; Kredit credit; Leih loan
modifier: Pflicht duty
noun contract
  ~ contract | ~vertrag m ¨e | @deal,
    Werk=contract for work; breach of ~ | ~verletzung f -en | Pflicht
"""
    nouns: dict[bool, dict[str, str]] = {False: {}, True: {}}
    for held_out, result in nouns.items():
        for item in Grammar(text, held_out).words["contract"]:
            result[item.german(Features())] = item.english(Features("p"))
    assert nouns[True]["Mietvertrag"] == "rental contracts"
    assert nouns[True]["Werkvertrag"] == "contracts for work"
    assert nouns[True]["Pflichtverletzung"] == "breaches of duty"
    assert nouns[True].keys() - nouns[False].keys() == {"Leihvertrag"}
    assert len(nouns[True]) == 8


def test_a_mistake_in_a_grammar_is_found() -> None:
    with pytest.raises(KeyError, match="nominativ"):
        Grammar("name x: Anna f\nrule S: {x:nominativ}").derive("S", Random(0))
    with pytest.raises(KeyError, match="nobody"):
        Grammar("rule S: {nobody}").derive("S", Random(0))
