"""The forms of words, against tables written down by hand."""

from __future__ import annotations

import pytest

from subgraft.data.sources.generated.words import CASES, ENTRY, Features, Noun, Verb, genitive


def noun(entry: str) -> Noun:
    result = ENTRY["noun"](*entry.split(" | "))
    assert isinstance(result, Noun)
    return result


def verb(german: str) -> Verb:
    result = ENTRY["verb"]("do, did, done", german)
    assert isinstance(result, Verb)
    return result


@pytest.mark.parametrize(
    ("entry", "singular", "plural"),
    [
        ("table | Tisch m -e", "Tisch Tisch Tisch Tisches", "Tische Tische Tischen Tische"),
        ("house | Haus n ¨er", "Haus Haus Haus Hauses", "Häuser Häuser Häusern Häuser"),
        ("apple | Apfel m ¨", "Apfel Apfel Apfel Apfels", "Äpfel Äpfel Äpfeln Äpfel"),
        ("car | Auto n -s", "Auto Auto Auto Autos", "Autos Autos Autos Autos"),
        ("customer | Kunde w -n", "Kunde Kunden Kunden Kunden", "Kunden Kunden Kunden Kunden"),
        ("town | Stadt f ¨e", "Stadt Stadt Stadt Stadt", "Städte Städte Städten Städte"),
        ("contract | Kaufvertrag m ¨e", "Kaufvertrag Kaufvertrag Kaufvertrag Kaufvertrags", "Kaufverträge " * 2),
    ],
)
def test_nouns_decline(entry: str, singular: str, plural: str) -> None:
    word = noun(entry)
    forms = [word.german(Features(word.agreement, case)) for case in range(4)]
    assert forms == singular.split()
    for case, form in zip(range(4), plural.split(), strict=False):
        assert word.german(Features("p", case)) == form


@pytest.mark.parametrize(
    ("determiner", "gender", "forms"),
    [
        ("the | der", "m", "der neue|den neuen|dem neuen|des neuen"),
        ("the | der", "f", "die neue|die neue|der neuen|der neuen"),
        ("the | der", "n", "das neue|das neue|dem neuen|des neuen"),
        ("the | der", "p", "die neuen|die neuen|den neuen|der neuen"),
        ("a | ein", "m", "ein neuer|einen neuen|einem neuen|eines neuen"),
        ("a | ein", "f", "eine neue|eine neue|einer neuen|einer neuen"),
        ("a | ein", "n", "ein neues|ein neues|einem neuen|eines neuen"),
        ("this | dies", "n", "dieses neue|dieses neue|diesem neuen|dieses neuen"),
        ("our | unser", "p", "unsere neuen|unsere neuen|unseren neuen|unserer neuen"),
        ("", "m", "neuer|neuen|neuem|neuen"),
        ("", "p", "neue|neue|neuen|neuer"),
    ],
)
def test_determiners_and_adjectives_decline(determiner: str, gender: str, forms: str) -> None:
    new = ENTRY["adjective"]("new", "neu")
    for case, form in enumerate(forms.split("|")):
        features, said = Features(gender, case), ""
        if determiner:
            word = ENTRY["determiner"](*determiner.split(" | "))
            features = features._replace(declension=word.declension)  # type: ignore[attr-defined]
            said = word.german(features) + " "
        assert said + new.german(features) == form, CASES[case]


@pytest.mark.parametrize(
    ("entry", "plain", "before_a_noun"),
    [("teuer teur", "teuer", "teure"), ("müde", "müde", "müde"), ("alt",) * 2 + ("alte",)],
)
def test_adjectives_have_a_stem(entry: str, plain: str, before_a_noun: str) -> None:
    word = ENTRY["adjective"]("so", entry)
    assert word.german(Features(declension="plain")) == plain
    assert word.german(Features("f", 0, declension="weak")) == before_a_noun


def test_genitives() -> None:
    words = ("Vertrag", "Haus", "Buch", "Auto", "Preis", "Anspruch", "Mann", "Urteil", "Gesetz")
    expected = "Vertrags Hauses Buches Autos Preises Anspruchs Mannes Urteils Gesetzes"
    assert " ".join(map(genitive, words)) == expected


@pytest.mark.parametrize(
    ("entry", "present", "past", "perfect", "infinitives"),
    [
        ("kaufen", "kauft kaufen", "kaufte kauften", "gekauft hat", "kaufen|zu kaufen"),
        ("arbeiten", "arbeitet arbeiten", "arbeitete arbeiteten", "gearbeitet hat", "arbeiten|zu arbeiten"),
        ("verkaufen", "verkauft verkaufen", "verkaufte verkauften", "verkauft hat", "verkaufen|zu verkaufen"),
        ("reparieren", "repariert reparieren", "reparierte reparierten", "repariert hat", "reparieren|zu reparieren"),
        ("öffnen", "öffnet öffnen", "öffnete öffneten", "geöffnet hat", "öffnen|zu öffnen"),
        ("lesen liest las gelesen", "liest lesen", "las lasen", "gelesen hat", "lesen|zu lesen"),
        ("gehen geht ging gegangen*", "geht gehen", "ging gingen", "gegangen ist", "gehen|zu gehen"),
        ("ab-holen", "abholt abholen", "abholte abholten", "abgeholt hat", "abholen|abzuholen"),
        ("vor-legen", "vorlegt vorlegen", "vorlegte vorlegten", "vorgelegt hat", "vorlegen|vorzulegen"),
        ("sein ist war gewesen*", "ist sind", "war waren", "gewesen ist", "sein|zu sein"),
        ("sollen sollte sollte gesollt", "sollte sollten", "sollte sollten", "gesollt hat", "sollen|zu sollen"),
        ("können kann konnte gekonnt", "kann können", "konnte konnten", "gekonnt hat", "können|zu können"),
    ],
)
def test_verbs_conjugate(entry: str, present: str, past: str, perfect: str, infinitives: str) -> None:
    """In the order of a subordinate clause; ^ marks the finite verb, without its separable prefix."""
    word = verb(entry)
    said = {form: word.german(Features("n", form=form)) for form in ("present", "past", "perfect", "bare", "zu")}
    many = {form: word.german(Features("p", form=form)) for form in ("present", "past")}
    assert [said["present"].replace("^", ""), many["present"].replace("^", "")] == present.split()
    assert [said["past"].replace("^", ""), many["past"].replace("^", "")] == past.split()
    assert said["perfect"].replace("^", "") == perfect
    assert [said["bare"], said["zu"]] == infinitives.split("|")
    if word.prefix:
        assert said["present"].startswith(word.prefix + "^")


def test_english_words_have_their_forms() -> None:
    plurals = {word: noun(f"{word} | X n -").said_plural for word in ("house", "city", "box", "day", "right of action")}
    assert plurals == {
        "house": "houses",
        "city": "cities",
        "box": "boxes",
        "day": "days",
        "right of action": "rights of action",
    }
    assert noun("knife/knives | X n -").said_plural == "knives"
    for base, forms in {
        "try": "tries tried tried",
        "love": "loves loved loved",
        "wash": "washes washed washed",
        "play": "plays played played",
        "pick up": "picks up|picked up|picked up",
        "read, read, read": "reads read read",
        "go, went, gone": "goes went gone",
    }.items():
        word = ENTRY["verb"](base, "tun")
        result = [word.english(Features("n", form=form)) for form in ("present", "past", "participle")]
        assert result == forms.split("|" if "|" in forms else " ")
        assert word.english(Features("p")) == base.partition(",")[0]
    be = ENTRY["verb"]("be, was, been", "sein ist war gewesen*")
    assert [be.english(Features(n, form=form)) for form in ("present", "past") for n in "np"] == [
        "is",
        "are",
        "was",
        "were",
    ]
    assert be.english(Features("p", form="bare")) == "be"
