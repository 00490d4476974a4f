"""The words of the generated corpus: their entries and their inflection.

The German forms are those of Duden, Die Grammatik (the chapters on article, adjective, noun and verb). Subjects are of
the third person, but for *we*, whose verbs have the form of *they*.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import NamedTuple, Protocol

CASES = "nadg"
# In the text of a clause this stands before its finite verb, until that is put in its place.
FINITE = "^"


def _forms(**by_gender: str) -> Mapping[str, tuple[str, ...]]:
    return {gender: tuple(text.replace("-", "").split(" ")) for gender, text in by_gender.items()}


# By gender, or p for the plural: forms and endings in nominative, accusative, dative, genitive; "-" for none.
_DER = _forms(m="der den dem des", f="die die der der", n="das das dem des", p="die die den der")
RELATIVE = _forms(m="der den dem dessen", f="die die der deren", n="das das dem dessen", p="die die denen deren")
_DIESER = _forms(m="er en em es", f="e e er er", n="es es em es", p="e e en er")
_EIN = _forms(m="- en em es", f="e e er er", n="- - em es", p="e e en er")
_ADJECTIVE = {
    "weak": _forms(m="e en en en", f="e e en en", n="e e en en", p="en en en en"),
    "mixed": _forms(m="er en en en", f="e e en en", n="es es en en", p="en en en en"),
    "strong": _forms(m="er en em en", f="e e er er", n="es es em en", p="e e en er"),
}
# Singular and plural. Sollen expresses advice and duty (should): the subjunctive serves as the present.
_FINITE = {"sein": ("ist", "sind"), "haben": ("hat", "haben"), "sollen": ("sollte", "sollten")}
_INSEPARABLE = ("be", "ver", "ent", "er", "zer", "über", "unter", "hinter")


class Features(NamedTuple):
    """The features that a phrase inherits from the surrounding phrase.

    agreement: m, f, n, or p in the plural.  case: 0 to 3, nominative, accusative, dative, genitive.  form: of verbs.
    declension: of adjectives, by the article before them; "plain" for none.  order: where a clause has its finite verb,
    "first", "second" or "last".
    """

    agreement: str = "n"
    case: int = 0
    form: str = "present"
    declension: str = "strong"
    negated: bool = False
    order: str = "second"


class Item(Protocol):
    """A word, or a phrase, in both languages. agreement: what others agree with it in; None if they do not."""

    @property
    def agreement(self) -> str | None: ...
    def english(self, features: Features) -> str: ...
    def german(self, features: Features) -> str: ...


@dataclass(frozen=True, slots=True)
class Word:
    """A word that is not inflected: an adverb, a name, a pronoun in the nominative."""

    said: str
    gesagt: str
    agreement: str | None = None

    def english(self, features: Features) -> str:
        return self.said

    def german(self, features: Features) -> str:
        return self.gesagt


@dataclass(frozen=True, slots=True)
class Determiner:
    """An article, demonstrative or possessive, as in "the | der" and "my | mein"."""

    said: str
    stem: str
    agreement = None

    def english(self, features: Features) -> str:
        return self.said

    def german(self, features: Features) -> str:
        gender, case = features.agreement, features.case
        if self.stem == "der":
            return _DER[gender][case]
        if self.stem == "dies":
            return self.stem + _DIESER[gender][case]
        negated = self.stem == "ein" and features.negated and CASES[case] == "a"
        return ("k" if negated else "") + self.stem + _EIN[gender][case]

    @property
    def declension(self) -> str:
        """That of an adjective after it."""
        return "weak" if self.stem in ("der", "dies") else "mixed"


@dataclass(frozen=True, slots=True)
class Adjective:
    """As "old | alt", with the stem where endings change it: "expensive | teuer teur"."""

    said: str
    plain: str
    stem: str
    agreement = None

    def english(self, features: Features) -> str:
        return self.said

    def german(self, features: Features) -> str:
        if features.declension == "plain":
            return self.plain
        return self.stem + _ADJECTIVE[features.declension][features.agreement][features.case]


@dataclass(frozen=True, slots=True)
class Noun:
    """As "child/children | Kind n -er"; gender w: weak masculine. Plurals as in dictionaries: -er, ¨er; 0: none."""

    said: str
    said_plural: str
    singular: str
    gender: str
    plural: str

    @property
    def agreement(self) -> str:
        return "m" if self.gender == "w" else self.gender

    def english(self, features: Features) -> str:
        return self.said_plural if features.agreement == "p" else self.said

    def german(self, features: Features) -> str:
        case = CASES[features.case]
        if features.agreement == "p":
            return self.plural + ("n" if case == "d" and not self.plural.endswith(("n", "s")) else "")
        if self.gender == "w" and case != "n":
            return self.plural
        return genitive(self.singular) if case == "g" and self.gender != "f" else self.singular


@dataclass(frozen=True, slots=True)
class Verb:
    """As "read read read | lesen liest las gelesen"; * at the end for the perfect with *sein*, "ab-" for a prefix.

    said: base, third person, past and participle, "pick up" with its particle. German forms: present, past, perfect,
    participle, bare (the infinitive) and zu, the finite word marked.
    """

    said: tuple[str, str, str, str]
    prefix: str
    infinitive: str
    third: str
    past: str
    participle: str
    auxiliary: str
    agreement = None

    def english(self, features: Features) -> str:
        base, third, past, participle = self.said
        if features.agreement == "p" and base == "be" and features.form in ("present", "past"):
            return "are" if features.form == "present" else "were"
        present = base if features.agreement == "p" else third
        return {"present": present, "past": past, "participle": participle}.get(features.form, base)

    def german(self, features: Features) -> str:
        form, plural = features.form, features.agreement == "p"
        if form == "bare":
            return self.prefix + self.infinitive
        if form == "zu":
            return f"{self.prefix}zu{self.infinitive}" if self.prefix else f"zu {self.infinitive}"
        if form == "participle":
            return self.participle
        if form == "past":
            ending = ("n" if self.past.endswith("e") else "en") if plural else ""
            return f"{self.prefix}{FINITE}{self.past}{ending}"
        if form == "perfect":
            return f"{self.participle} {FINITE}{_FINITE[self.auxiliary][plural]}"
        return f"{self.prefix}{FINITE}{_FINITE.get(self.infinitive, (self.third, self.infinitive))[plural]}"


def genitive(noun: str) -> str:
    """The strong genitive: Vertrags, Hauses; -es after a sibilant and in most words of one syllable."""
    if noun.endswith(("s", "ß", "x", "z", "sch", "st")):
        return noun + "es"
    one_syllable = len(re.findall("[aeiouäöüé]+", noun.lower())) == 1
    return noun + ("es" if one_syllable and (noun.endswith("ch") or noun[-1] not in "aeiouäöüéhlrm") else "s")


def _plural(singular: str, code: str) -> str:
    if code.startswith("¨"):
        umlaut = str.maketrans("aouAOU", "äöüÄÖÜ")
        vowel = r"a(?=u[^aou]*$)|[aouAOU](?=[^aou]*$)"
        return re.sub(vowel, lambda match: match[0].translate(umlaut), singular, count=1) + code[1:]
    return singular + code[1:] if code.startswith("-") else code.removeprefix("0")


def _english(word: str, ending: str) -> str:
    """A word with -s or -ed: city → cities, box → boxes, try → tried; of breach of contract, the first one."""
    head, *rest = re.split(r"(?= (?:of|to|for|against|up|on)\b)", word, maxsplit=1)
    after = "".join(rest)
    if head.endswith("y") and head[-2] not in "aeiou":
        return f"{head[:-1]}ie{ending[-1]}{after}"
    if ending == "s":
        return f"{head}{'es' if head.endswith(('s', 'x', 'ch', 'sh', 'o')) else 's'}{after}"
    return f"{head}{'d' if head.endswith('e') else 'ed'}{after}"


def _regular(infinitive: str, prefix: str) -> tuple[str, str, str]:
    """Third person of present and preterite, and participle, of a weak verb without its separable prefix."""
    root = infinitive[:-1] if infinitive.endswith(("ern", "eln")) else infinitive[:-2]
    link = "e" if root.endswith(("t", "d", "chn", "ffn", "gn")) else ""
    bare = infinitive.endswith("ieren") or (infinitive.startswith(_INSEPARABLE) and not prefix)
    return f"{root}{link}t", f"{root}{link}te", f"{'' if bare else 'ge'}{root}{link}t"


def _named(said: str, gesagt: str) -> Word:
    """A name with its gender, "Anna f", or a pronoun, "we | wir p"."""
    text, _, gender = (gesagt or said).rpartition(" ")
    return Word(said if gesagt else text, text, gender)


def _adjective(said: str, gesagt: str) -> Adjective:
    plain, _, changed = gesagt.partition(" ")
    return Adjective(said, plain, changed or plain.removesuffix("e"))


def _noun(said: str, gesagt: str) -> Noun:
    one, _, many = said.partition("/")
    singular, gender, plural = gesagt.split(" ")
    return Noun(one, many or _english(one, "s"), singular, gender, _plural(singular, plural))


def _verb(said: str, gesagt: str) -> Verb:
    base, *flags = said.split(", ")
    said_past, said_participle = flags or [_english(base, "ed")] * 2
    english = (base, "is" if base == "be" else _english(base, "s"), said_past, said_participle)
    stated, *parts = gesagt.rstrip("*").split(" ")
    prefix, _, infinitive = stated.rpartition("-")
    third, past, participle = parts or _regular(infinitive, prefix)
    auxiliary = "sein" if gesagt.endswith("*") else "haben"
    return Verb(english, prefix, infinitive, third, past, prefix + participle, auxiliary)


# By the kind that a grammar names: how an entry is read. A modal verb has one form in English.
ENTRY: Mapping[str, Callable[[str, str], Item]] = {
    "word": lambda said, gesagt: Word(said, gesagt or said),
    "name": _named,
    "determiner": Determiner,
    "adjective": _adjective,
    "noun": _noun,
    "verb": _verb,
    "modal": lambda said, gesagt: replace(_verb(said, gesagt), said=(said,) * 4),
}
