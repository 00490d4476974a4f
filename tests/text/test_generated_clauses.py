"""Word order and verb forms of whole clauses, against sentences written down by hand in both languages."""

from __future__ import annotations

from dataclasses import replace

import pytest

from subgraft.text.generated import clauses, german
from subgraft.text.generated.clauses import BE, Clause, Complement, sentence
from subgraft.text.generated.phrases import PRONOUNS, Gap, Name, NounPhrase, genitive, prepositional
from subgraft.text.generated.words import Adverbial, noun, verb

ME, YOU, HE, SHE, WE, THEY = PRONOUNS
ANNA = Name("Anna", "f")
BOOK = NounPhrase(noun("book", "Buch", "n", "Bücher"))
CAR = NounPhrase(noun("car", "Auto", "n", "Autos"), "ein")
SISTER = NounPhrase(noun("sister", "Schwester", "f", "Schwestern"), "his")
TENANT = NounPhrase(noun("tenant", "Mieter", "m", "Mieter"))
READ = verb("read,read,read", "lesen,liest,las,gelesen")
BUY = verb("buy,bought,bought", "kaufen")
FETCH = verb("pick up", "ab-holen")
GO = verb("go,went,gone", "gehen,geht,ging,gegangen*")
GIVE = verb("give,gave,given", "geben,gibt,gab,gegeben")
WAIT = verb("wait for", "warten")
YESTERDAY, NOW, OFTEN = Adverbial("yesterday", "gestern"), Adverbial("now", "jetzt"), Adverbial("often", "oft")
GARDEN = Adverbial("in the garden", "im Garten")
CINEMA = Adverbial("to the cinema", "ins Kino")

READING = Clause(ANNA, READ, (Complement(BOOK),))
BUYING = Clause(HE, BUY, (Complement(CAR),))
FETCHING = Clause(SHE, FETCH, (Complement(HE),))


@pytest.mark.parametrize(
    ("clause", "said", "gesagt"),
    [
        (READING, "Anna reads the book", "Anna liest das Buch"),
        (replace(READING, tense="progressive", time=NOW), "Anna is reading the book now", "Anna liest jetzt das Buch"),
        (replace(READING, tense="perfect"), "Anna read the book", "Anna hat das Buch gelesen"),
        (replace(READING, tense="preterite"), "Anna read the book", "Anna las das Buch"),
        (replace(READING, tense="future"), "Anna will read the book", "Anna wird das Buch lesen"),
        (replace(READING, frequency=OFTEN), "Anna often reads the book", "Anna liest oft das Buch"),
        (
            replace(READING, tense="perfect", time=YESTERDAY, place=GARDEN),
            "Anna read the book in the garden yesterday",
            "Anna hat gestern das Buch im Garten gelesen",
        ),
        (
            replace(READING, tense="perfect", negated=True, time=YESTERDAY),
            "Anna did not read the book yesterday",
            "Anna hat das Buch gestern nicht gelesen",
        ),
        (replace(BUYING, negated=True), "he does not buy a car", "er kauft kein Auto"),
        (replace(BUYING, modal="müssen"), "he must buy a car", "er muss ein Auto kaufen"),
        (
            replace(BUYING, modal="müssen", negated=True),
            "he does not have to buy a car",
            "er muss kein Auto kaufen",
        ),
        (replace(READING, modal="können", negated=True), "Anna cannot read the book", "Anna kann das Buch nicht lesen"),
        (replace(BUYING, modal="dürfen", negated=True), "he may not buy a car", "er darf kein Auto kaufen"),
        (replace(BUYING, modal="wollen", tense="perfect"), "he wanted to buy a car", "er wollte ein Auto kaufen"),
        (
            replace(READING, modal="dürfen", tense="perfect"),
            "Anna was allowed to read the book",
            "Anna durfte das Buch lesen",
        ),
        (FETCHING, "she picks him up", "sie holt ihn ab"),
        (replace(FETCHING, tense="perfect"), "she picked him up", "sie hat ihn abgeholt"),
        (Clause(THEY, GO, tense="perfect", place=CINEMA), "they went to the cinema", "sie sind ins Kino gegangen"),
        (
            Clause(THEY, GO, negated=True, place=CINEMA),
            "they do not go to the cinema",
            "sie gehen nicht ins Kino",
        ),
        (
            Clause(HE, GIVE, (Complement(SISTER, german.DATIVE), Complement(CAR)), tense="perfect"),
            "he gave his sister a car",
            "er hat seiner Schwester ein Auto gegeben",
        ),
        (
            Clause(HE, GIVE, (Complement(ME, german.DATIVE), Complement(BOOK))),
            "he gives me the book",
            "er gibt mir das Buch",
        ),
        (
            Clause(ME, WAIT, (Complement(SISTER, german.ACCUSATIVE, ("", "auf")),), tense="perfect", place=GARDEN),
            "I waited for his sister in the garden",
            "ich habe im Garten auf seine Schwester gewartet",
        ),
        (
            Clause(WE, BE, tense="perfect", predicate=Adverbial("very tired", "sehr müde")),
            "we were very tired",
            "wir waren sehr müde",
        ),
        (
            Clause(BOOK, BUY, (Complement(TENANT, german.DATIVE, ("by", "von")),), tense="preterite", passive=True),
            "the book was bought by the tenant",
            "das Buch wurde vom Mieter gekauft",
        ),
        (Clause(BOOK, READ, modal="müssen", passive=True), "the book must be read", "das Buch muss gelesen werden"),
    ],
)
def test_main_clauses(clause: Clause, said: str, gesagt: str) -> None:
    assert clauses.english_main(clause) == said
    assert clauses.german_main(clause) == gesagt


def test_a_fronted_adverbial_inverts_subject_and_verb() -> None:
    clause = replace(READING, tense="perfect", time=YESTERDAY)
    assert clauses.english_main(clause, "yesterday") == "yesterday Anna read the book"
    assert clauses.german_main(clause, "gestern") == "gestern hat Anna das Buch gelesen"


@pytest.mark.parametrize(
    ("clause", "gesagt"),
    [
        (READING, "weil Anna das Buch liest"),
        (replace(READING, tense="perfect"), "weil Anna das Buch gelesen hat"),
        (replace(READING, modal="können"), "weil Anna das Buch lesen kann"),
        (FETCHING, "weil sie ihn abholt"),
        (replace(FETCHING, tense="perfect"), "weil sie ihn abgeholt hat"),
        (Clause(BOOK, READ, modal="dürfen", passive=True), "weil das Buch gelesen werden darf"),
        (replace(BUYING, negated=True), "weil er kein Auto kauft"),
    ],
)
def test_the_verb_comes_last_in_subordinate_clauses(clause: Clause, gesagt: str) -> None:
    assert clauses.german_subordinate(clause, "weil") == gesagt


def test_questions() -> None:
    asked = Clause(YOU, BUY, (Complement(CAR),), tense="perfect")
    assert clauses.english_question(asked) == "did you buy a car"
    assert clauses.german_question(asked) == "hast du ein Auto gekauft"
    assert clauses.english_question(replace(asked, tense="future"), "why") == "why will you buy a car"
    assert clauses.german_question(replace(asked, tense="future"), "warum") == "warum wirst du ein Auto kaufen"


def test_infinitives_and_requests() -> None:
    assert clauses.english_infinitive(FETCHING) == "to pick him up"
    assert clauses.german_infinitive(FETCHING) == "ihn abzuholen"
    assert clauses.german_request(FETCHING) == "holen Sie ihn ab"


def test_relative_clauses() -> None:
    inner = Clause(Gap(2, "m"), READ, (Complement(BOOK),))
    after = Adverbial(f"who {clauses.english_main(inner)}", f", {clauses.german_subordinate(inner, 'der')},")
    whole = Clause(TENANT.followed(after), BE, predicate=Adverbial("ill", "krank"))
    assert sentence(clauses.english_main(whole)) == "The tenant who reads the book is ill."
    assert sentence(clauses.german_main(whole)) == "Der Mieter, der das Buch liest, ist krank."


def test_attributes_and_prepositions() -> None:
    contract = NounPhrase(noun("purchase contract", "Kaufvertrag", "m", "Kaufverträge"))
    assert genitive(contract) == Adverbial("of the purchase contract", "des Kaufvertrags")
    inside = prepositional(contract, ("in", "in"), german.DATIVE)
    assert inside == Adverbial("in the purchase contract", "im Kaufvertrag")


def test_sentences_have_single_commas_and_one_mark() -> None:
    assert sentence("er sagt , , dass er kommt ,") == "Er sagt, dass er kommt."
    assert sentence("kommt er", "?") == "Kommt er?"
