"""Forms of German and English words, against forms written down by hand."""

from __future__ import annotations

import pytest

from subgraft.text.generated import english, german
from subgraft.text.generated.phrases import NounPhrase
from subgraft.text.generated.words import Adverbial, adjective, noun, verb

CASES = range(4)
TWO = Adverbial("two", "zwei")


@pytest.mark.parametrize(
    ("word", "forms"),
    [
        ("der", ("der neue Tisch", "den neuen Tisch", "dem neuen Tisch", "des neuen Tisches")),
        ("ein", ("ein neuer Tisch", "einen neuen Tisch", "einem neuen Tisch", "eines neuen Tisches")),
        ("dies", ("dieser neue Tisch", "diesen neuen Tisch", "diesem neuen Tisch", "dieses neuen Tisches")),
        ("unser", ("unser neuer Tisch", "unseren neuen Tisch", "unserem neuen Tisch", "unseres neuen Tisches")),
    ],
)
def test_masculine_phrases_agree_in_every_case(word: str, forms: tuple[str, ...]) -> None:
    phrase = NounPhrase(noun("table", "Tisch", "m", "Tische"), word, adjective=adjective("new", "neu"))
    assert tuple(phrase.german(case) for case in CASES) == forms


@pytest.mark.parametrize(
    ("phrase", "forms"),
    [
        (
            NounPhrase(noun("lamp", "Lampe", "f", "Lampen"), "ein", adjective=adjective("expensive", "teuer,teur")),
            ("eine teure Lampe", "eine teure Lampe", "einer teuren Lampe", "einer teuren Lampe"),
        ),
        (
            NounPhrase(noun("picture", "Bild", "n", "Bilder"), "her", adjective=adjective("old", "alt")),
            ("ihr altes Bild", "ihr altes Bild", "ihrem alten Bild", "ihres alten Bildes"),
        ),
        (
            NounPhrase(noun("bread", "Brot", "n", "-"), "", adjective=adjective("fresh", "frisch")),
            ("frisches Brot", "frisches Brot", "frischem Brot", "frischen Brotes"),
        ),
        (
            NounPhrase(
                noun("picture", "Bild", "n", "Bilder"), "", True, adjective("old", "alt"), Adverbial("two", "zwei")
            ),
            ("zwei alte Bilder", "zwei alte Bilder", "zwei alten Bildern", "zwei alter Bilder"),
        ),
        (
            NounPhrase(noun("house", "Haus", "n", "Häuser"), "der", True, adjective("old", "alt")),
            ("die alten Häuser", "die alten Häuser", "den alten Häusern", "der alten Häuser"),
        ),
        (
            NounPhrase(noun("customer", "Kunde", "w", "Kunden"), "der"),
            ("der Kunde", "den Kunden", "dem Kunden", "des Kunden"),
        ),
    ],
)
def test_phrases_decline(phrase: NounPhrase, forms: tuple[str, ...]) -> None:
    assert tuple(phrase.german(case) for case in CASES) == forms


def test_negation_takes_kein_with_its_endings() -> None:
    car = NounPhrase(noun("car", "Auto", "n", "Autos"), "ein", adjective=adjective("new", "neu"))
    cars = NounPhrase(noun("car", "Auto", "n", "Autos"), "", True, adjective("new", "neu"))
    assert car.german(german.ACCUSATIVE, negated=True) == "kein neues Auto"
    assert cars.german(german.ACCUSATIVE, negated=True) == "keine neuen Autos"


def test_genitives() -> None:
    words = [
        "Vertrag",
        "Haus",
        "Verhältnis",
        "Buch",
        "Auto",
        "Bus",
        "Preis",
        "Anspruch",
        "Mann",
        "Fiskus",
        "Urteil",
        "Café",
    ]
    expected = "Vertrags Hauses Verhältnisses Buches Autos Busses Preises Anspruchs Mannes Fiskus Urteils Cafés"
    assert [german.genitive(word) for word in words] == expected.split()


def test_contractions() -> None:
    contracted = [german.contracted(*pair) for pair in (("in", "dem Haus"), ("zu", "der Bank"), ("in", "der Stadt"))]
    assert contracted == ["im Haus", "zur Bank", "in der Stadt"]
    assert german.contracted("von", "dem Notar") == "vom Notar"
    assert german.contracted("in", "demselben") == "in demselben"


@pytest.mark.parametrize(
    ("said", "present", "preterite"),
    [
        ("kaufen", "kaufe kaufst kauft kaufen kaufen", "kaufte kauftest kaufte kauften kauften"),
        (
            "arbeiten",
            "arbeite arbeitest arbeitet arbeiten arbeiten",
            "arbeitete arbeitetest arbeitete arbeiteten arbeiteten",
        ),
        ("spielen", "spiele spielst spielt spielen spielen", "spielte spieltest spielte spielten spielten"),
        ("lesen,liest,las,gelesen", "lese liest liest lesen lesen", "las lasest las lasen lasen"),
        ("fahren,fährt,fuhr,gefahren*", "fahre fährst fährt fahren fahren", "fuhr fuhrst fuhr fuhren fuhren"),
        ("halten,hält,hielt,gehalten", "halte hältst hält halten halten", "hielt hieltest hielt hielten hielten"),
        ("ein-laden,lädt,lud,geladen", "lade lädst lädt laden laden", "lud ludest lud luden luden"),
        ("liefern", "liefere lieferst liefert liefern liefern", "lieferte liefertest lieferte lieferten lieferten"),
    ],
)
def test_conjugation(said: str, present: str, preterite: str) -> None:
    word = verb("do", said)
    assert [german.finite(word, person) for person in range(5)] == present.split()
    assert [german.finite(word, person, past=True) for person in range(5)] == preterite.split()


def test_modals_and_auxiliaries() -> None:
    assert [german.finite("müssen", person) for person in range(5)] == ["muss", "musst", "muss", "müssen", "müssen"]
    assert [german.finite("können", person, past=True) for person in (0, 1, 4)] == ["konnte", "konntest", "konnten"]
    assert [german.finite("sollen", person) for person in (0, 1)] == ["sollte", "solltest"]
    assert [german.finite("werden", person, past=True) for person in (2, 4)] == ["wurde", "wurden"]


@pytest.mark.parametrize(
    ("infinitive", "participle"),
    [
        ("kaufen", "gekauft"),
        ("verkaufen", "verkauft"),
        ("reparieren", "repariert"),
        ("ab-holen", "abgeholt"),
        ("ein-schalten", "eingeschaltet"),
        ("öffnen", "geöffnet"),
        ("vor-legen", "vorgelegt"),
        ("begründen", "begründet"),
        ("erben", "geerbt"),
        ("hinterlegen", "hinterlegt"),
    ],
)
def test_regular_participles(infinitive: str, participle: str) -> None:
    assert verb("do", infinitive).participle == participle


def test_infinitives_with_zu() -> None:
    assert german.zu_infinitive(verb("pick up", "ab-holen")) == "abzuholen"
    assert german.zu_infinitive(verb("buy", "kaufen")) == "zu kaufen"


def test_english_forms() -> None:
    assert [english.plural(word) for word in ("house", "city", "box", "day", "knife", "potato")] == (
        ["houses", "cities", "boxes", "days", "knives", "potatoes"]
    )
    assert [english.third_person(word) for word in ("go", "try", "buy", "watch", "have")] == (
        ["goes", "tries", "buys", "watches", "has"]
    )
    assert [english.gerund(word) for word in ("make", "run", "lie", "see", "sing")] == (
        ["making", "running", "lying", "seeing", "singing"]
    )
    assert [english.past(word) for word in ("play", "try", "plan", "love")] == ["played", "tried", "planned", "loved"]
    assert [english.indefinite(word) for word in ("apple", "usage fee", "heir", "unhappy", "contract")] == (
        ["an", "a", "an", "an", "a"]
    )
