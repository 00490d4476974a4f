"""German inflection: articles, adjective endings, noun cases, conjugation, contractions.

Cases are 0-3 for nominative, accusative, dative, genitive; persons 0-4 for ich, du, er, wir, sie. The forms are
those of Duden, Die Grammatik (the chapters on article, adjective, noun and verb).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache

from subgraft.text.generated.words import Adjective, Noun, Verb, stem

NOMINATIVE, ACCUSATIVE, DATIVE, GENITIVE = range(4)

# By gender or plural (p), one word per case.
DEFINITE: Mapping[str, tuple[str, ...]] = {
    "m": ("der", "den", "dem", "des"),
    "f": ("die", "die", "der", "der"),
    "n": ("das", "das", "dem", "des"),
    "p": ("die", "die", "den", "der"),
}
RELATIVE: Mapping[str, tuple[str, ...]] = {
    "m": ("der", "den", "dem", "dessen"),
    "f": ("die", "die", "der", "deren"),
    "n": ("das", "das", "dem", "dessen"),
    "p": ("die", "die", "denen", "deren"),
}
# Endings of ein, kein, mein …; of dieser; and of adjectives after der, after ein, and after no article.
_EIN = {
    "m": ("", "en", "em", "es"),
    "f": ("e", "e", "er", "er"),
    "n": ("", "", "em", "es"),
    "p": ("e", "e", "en", "er"),
}
_DIES = {
    "m": ("er", "en", "em", "es"),
    "f": ("e", "e", "er", "er"),
    "n": ("es", "es", "em", "es"),
    "p": ("e", "e", "en", "er"),
}
_WEAK = {
    "m": ("e", "en", "en", "en"),
    "f": ("e", "e", "en", "en"),
    "n": ("e", "e", "en", "en"),
    "p": ("en", "en", "en", "en"),
}
_MIXED = {
    "m": ("er", "en", "en", "en"),
    "f": ("e", "e", "en", "en"),
    "n": ("es", "es", "en", "en"),
    "p": ("en", "en", "en", "en"),
}
_STRONG = {
    "m": ("er", "en", "em", "en"),
    "f": ("e", "e", "er", "er"),
    "n": ("es", "es", "em", "en"),
    "p": ("e", "e", "en", "er"),
}

_GENITIVES = {"Bus": "Busses", "Fiskus": "Fiskus", "Bonus": "Bonus", "Chef": "Chefs"}
_CONTRACTIONS = {
    "in dem": "im",
    "in das": "ins",
    "an dem": "am",
    "an das": "ans",
    "zu dem": "zum",
    "zu der": "zur",
    "von dem": "vom",
    "bei dem": "beim",
}

# Present and preterite by person.
_AUXILIARIES = {
    "sein": (("bin", "bist", "ist", "sind", "sind"), ("war", "warst", "war", "waren", "waren")),
    "haben": (("habe", "hast", "hat", "haben", "haben"), ("hatte", "hattest", "hatte", "hatten", "hatten")),
    "werden": (("werde", "wirst", "wird", "werden", "werden"), ("wurde", "wurdest", "wurde", "wurden", "wurden")),
}
# The first person singular of the present, and the third of the preterite.
_MODALS = {
    "müssen": ("muss", "musste"),
    "können": ("kann", "konnte"),
    "dürfen": ("darf", "durfte"),
    "wollen": ("will", "wollte"),
    # Advice and duty (should): the subjunctive serves as the present.
    "sollen": ("", "sollte"),
}


def determiner(word: str, gender: str, case: int) -> str:
    """The form of der, ein, kein, a possessive or dieser; "" for none."""
    if not word:
        return ""
    if word == "der":
        return DEFINITE[gender][case]
    if word == "dies":
        return word + _DIES[gender][case]
    return word + _EIN[gender][case]


def adjective_ending(word: str, gender: str, case: int) -> str:
    """The ending of an adjective after this determiner."""
    table = _WEAK if word in ("der", "dies") else _MIXED if word else _STRONG
    return table[gender][case]


def inflected(adjective: Adjective, word: str, gender: str, case: int) -> str:
    """An attributive adjective after this determiner: ein *neuer*, der *neue*, *neues* Brot."""
    ending = adjective_ending(word, gender, case)
    return adjective.stem + (ending[1:] if adjective.stem.endswith("e") else ending)


@cache
def noun_form(noun: Noun, case: int, plural: bool = False) -> str:
    """The noun in a case and number."""
    if plural:
        return noun.plural + ("n" if case == DATIVE and not noun.plural.endswith(("n", "s", "i")) else "")
    if case == NOMINATIVE or noun.gender == "f":
        return noun.german
    if noun.weak:
        return noun.plural
    return genitive(noun.german) if case == GENITIVE else noun.german


def genitive(word: str) -> str:
    """The strong genitive: Vertrags, Hauses, Verhältnisses; -es after a sibilant and in words of one syllable."""
    if word in _GENITIVES:
        return _GENITIVES[word]
    if word.endswith("nis"):
        return word + "ses"
    if word.endswith(("s", "ß", "x", "z", "sch", "st")):
        return word + "es"
    one_syllable = len(re.findall(r"[aeiouäöüyé]+", word.lower())) == 1
    return word + ("es" if one_syllable and (word.endswith("ch") or word[-1] not in "aeiouäöüéhlrm") else "s")


def contracted(preposition: str, phrase: str) -> str:
    """Preposition and phrase, with im, ins, am, ans, zum, zur, vom and beim."""
    article, _, rest = phrase.partition(" ")
    short = _CONTRACTIONS.get(f"{preposition} {article}")
    return f"{short} {rest}" if short else f"{preposition} {phrase}"


@cache
def finite(verb: Verb | str, person: int, past: bool = False) -> str:
    """The finite form in the present or preterite, without a separable prefix; auxiliaries and modals by name."""
    name = verb if isinstance(verb, str) else verb.infinitive
    if name in _AUXILIARIES:
        return _AUXILIARIES[name][past][person]
    if isinstance(verb, str):
        return _modal(verb, person, past)
    if past:
        return _preterite(verb.past, person)
    root = stem(verb.infinitive)
    if person == 0:
        return root + "e"
    return (_second_person(root, verb.present), verb.present, verb.infinitive, verb.infinitive)[person - 1]


def _second_person(root: str, third: str) -> str:
    """du from er: liest → liest, holt → holst, findet → findest; hält → hältst, whose t is the stem's own."""
    base = third if root.endswith("t") and not third.endswith("et") else third[:-1]
    return base + ("t" if base.endswith(("s", "ß", "z", "x")) else "st")


def _preterite(third: str, person: int) -> str:
    weak = third.endswith("e")
    second = "est" if third.endswith(("t", "d", "s", "ß", "z")) else "st"
    plural = "n" if weak else "en"
    return third + ("", second, "", plural, plural)[person]


def _modal(infinitive: str, person: int, past: bool) -> str:
    singular, preterite = _MODALS[infinitive]
    if past or not singular:
        return _preterite(preterite, person)
    second = singular + ("t" if singular.endswith("s") else "st")
    return (singular, second, singular, infinitive, infinitive)[person]


def zu_infinitive(verb: Verb) -> str:
    """zu kaufen, abzuholen."""
    return f"{verb.prefix}zu{verb.infinitive}" if verb.prefix else f"zu {verb.infinitive}"
