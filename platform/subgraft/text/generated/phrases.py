"""Noun phrases in both languages: pronouns, names, and nouns with determiner, numeral, adjective and what follows."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Protocol

from subgraft.text.generated import english, german
from subgraft.text.generated.words import Adjective, Adverbial, Noun

DETERMINERS = {
    "": ("", ""),
    "der": ("the", "the"),
    "ein": ("a", ""),
    "dies": ("this", "these"),
    "mein": ("my", "my"),
    "dein": ("your", "your"),
    "unser": ("our", "our"),
    "his": ("his", "his"),
    "her": ("her", "her"),
    "its": ("its", "its"),
    "their": ("their", "their"),
}
# Determiners are named by the German word, but for those where English tells more.
_GERMAN_STEMS = {"his": "sein", "its": "sein", "her": "ihr", "their": "ihr"}


class Nominal(Protocol):
    """What can be a subject or an object. person: 0-4 for I, you, he, we, they; gender: m, f, n or p for plural.

    own: the possessive determiner that points back at it.
    """

    @property
    def person(self) -> int: ...
    @property
    def gender(self) -> str: ...
    @property
    def own(self) -> str: ...
    @property
    def light(self) -> bool:
        """A pronoun: it comes first among the objects."""

    @property
    def definite(self) -> bool: ...

    def english(self, objective: bool = False) -> str: ...
    def german(self, case: int, negated: bool = False) -> str:
        """The form in a case; negated: with *kein*."""


@dataclass(frozen=True, slots=True)
class Pronoun:
    """A personal pronoun."""

    person: int
    gender: str
    own: str
    forms_english: tuple[str, str]
    forms_german: tuple[str, str, str]
    light: bool = True
    definite: bool = True

    def english(self, objective: bool = False) -> str:
        return self.forms_english[objective]

    def german(self, case: int, negated: bool = False) -> str:
        return self.forms_german[case]


PRONOUNS = (
    Pronoun(0, "m", "mein", ("I", "me"), ("ich", "mich", "mir")),
    Pronoun(1, "m", "dein", ("you", "you"), ("du", "dich", "dir")),
    Pronoun(2, "m", "his", ("he", "him"), ("er", "ihn", "ihm")),
    Pronoun(2, "f", "her", ("she", "her"), ("sie", "sie", "ihr")),
    Pronoun(3, "p", "unser", ("we", "us"), ("wir", "uns", "uns")),
    Pronoun(4, "p", "their", ("they", "them"), ("sie", "sie", "ihnen")),
)


@dataclass(frozen=True, slots=True)
class Name:
    """The name of somebody or something; cases: the German forms, where they differ from the English one."""

    text: str
    gender: str
    cases: tuple[str, ...] = ()
    person: int = 2
    light: bool = False
    definite: bool = True

    @property
    def own(self) -> str:
        return {"m": "his", "f": "her", "n": "its"}[self.gender]

    def english(self, objective: bool = False) -> str:
        return self.text

    def german(self, case: int, negated: bool = False) -> str:
        return self.cases[case] if self.cases else self.text


@dataclass(frozen=True, slots=True)
class Gap:
    """The place in a relative clause that the noun before it fills."""

    person: int
    gender: str
    own: str = "its"
    light: bool = False
    definite: bool = True

    def english(self, objective: bool = False) -> str:
        return ""

    def german(self, case: int, negated: bool = False) -> str:
        return ""


@dataclass(frozen=True, slots=True)
class NounPhrase:
    """A noun with what stands around it. after: an attribute behind the noun (prepositional, genitive or relative)."""

    noun: Noun
    word: str = "der"
    plural: bool = False
    adjective: Adjective | None = None
    numeral: Adverbial | None = None
    after: Adverbial | None = None
    light: bool = False

    @property
    def person(self) -> int:
        return 4 if self.plural else 2

    @property
    def gender(self) -> str:
        return "p" if self.plural else self.noun.gender

    @property
    def own(self) -> str:
        if self.plural:
            return "their"
        return "her" if self.noun.english == "girl" else {"m": "his", "f": "her", "n": "its"}[self.noun.gender]

    @property
    def definite(self) -> bool:
        return self.word not in ("", "ein")

    def followed(self, after: Adverbial) -> NounPhrase:
        """The same with another attribute behind the noun."""
        return replace(self, after=after)

    def english(self, objective: bool = False) -> str:
        words = [self.noun.english_plural if self.plural else self.noun.english]
        if self.adjective:
            words.insert(0, self.adjective.english)
        if self.numeral:
            words.insert(0, self.numeral.english)
        determiner = DETERMINERS[self.word][self.plural]
        if determiner:
            words.insert(0, english.indefinite(words[0]) if determiner == "a" else determiner)
        if self.after:
            words.append(self.after.english)
        return " ".join(words)

    def german(self, case: int, negated: bool = False) -> str:
        word = "kein" if negated else _GERMAN_STEMS.get(self.word, self.word)
        gender = self.gender
        words = [german.noun_form(self.noun, case, self.plural)]
        if self.adjective:
            words.insert(0, german.inflected(self.adjective, word, gender, case))
        if self.numeral:
            words.insert(0, self.numeral.german)
        if word and not (word == "ein" and self.plural):
            words.insert(0, german.determiner(word, gender, case))
        if self.after:
            words.append(self.after.german)
        return " ".join(words)


def prepositional(nominal: Nominal, preposition: tuple[str, str], case: int) -> Adverbial:
    """English and German preposition with this phrase: at the station, am Bahnhof."""
    text = german.contracted(preposition[1], nominal.german(case))
    return Adverbial(f"{preposition[0]} {nominal.english(objective=True)}", text)


def genitive(nominal: Nominal) -> Adverbial:
    """The phrase as an attribute: of the contract, des Vertrags."""
    return Adverbial(f"of {nominal.english(objective=True)}", nominal.german(german.GENITIVE))
