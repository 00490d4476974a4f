"""A synchronous grammar: rules that derive an English and a German sentence at once, with agreement.

A grammar is text, in sections that an unindented line opens. Entries are separated by line ends or semicolons, a line
that is indented further continues the one before it, and # begins a comment:

    noun thing other       Words of a kind (see words.ENTRY), for these categories: book | Buch n ¨er; …
    modifier deal          First parts of compounds in their linking form, and their English: Miet rental; …
    noun agreement         And compounds with them: ~ contract | ~vertrag m ¨e | @deal, Ehe, Werk=contract for work
    number section 1 400   The numbers from 1 to 400.
    rule NP.X              What a category becomes, with a weight: 3 {det} {good.X} {X} | {det} {good.X} {X}

Sides that are alike are written once. `{category}` is a place; places of one name (NP, NP2) in both sides share their
derivation. In a rule for NP.X, X stands for any category. Features follow colons, and each applies to its side only: a
case (n, a, d, g), p for the plural, a form of verbs, plain, not, first, last (words.Features). A phrase agrees with its
part marked n, or else with its first word or phrase without a case of its own. A phrase with a place marked n is a
clause; its German side is written as a subordinate clause, with the verb last, and the finite verb moves to the second
or first place. {not} is *nicht*, unless *kein* already negates the clause; {rel} is the relative pronoun. Every eighth
compound of an entry is left out of training.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate
from random import Random
from typing import Any

from subgraft.data.sources.generated.words import CASES, ENTRY, FINITE, RELATIVE, Determiner, Features, Item, Word

_PLACE = re.compile(r"\{([\w.]+?)(\d*)((?::\w+)*)\}")
# Which of eight compounds is left out of training.
_HELD_OUT = 5
_FINITE = re.compile(re.escape(FINITE) + r"(\w+)")
# The meaning of each feature after a colon; Phrase.inner handles the plural.
_FEATURES: Mapping[str, Mapping[str, Any]] = {
    **{case: {"case": index} for index, case in enumerate(CASES)},
    **{form: {"form": form} for form in ("past", "perfect", "participle", "bare", "zu")},
    **{order: {"order": order} for order in ("first", "last")},
    "plain": {"declension": "plain"},
    "not": {"negated": True},
    "p": {},
}


@dataclass(frozen=True, slots=True)
class Place:
    """A place in one side of a rule, and the text after it."""

    name: str
    category: str
    tags: frozenset[str]
    features: Mapping[str, Any]
    after: str


def _places(text: str) -> tuple[str, tuple[Place, ...]]:
    """One side of a rule: the text before the first place, and the places."""
    before, *parts = _PLACE.split(text)
    named_places = []
    for category, number, tags, after in zip(*[iter(parts)] * 4, strict=True):
        named = tags[1:].split(":") if tags else []
        features = {key: value for tag in named for key, value in _FEATURES[tag].items()}
        named_places.append(Place(category + number, category, frozenset(named), features, after))
    return before, tuple(named_places)


class Rule:
    """A derivation of a category, in English and German. clause: it has a nominative, and so a finite verb."""

    def __init__(self, text: str) -> None:
        english, _, german = text.partition(" | ")
        self.english = _places(english)
        self.german = _places(german or english)
        self.clause = any("n" in place.tags for place in self.german[1])
        places = (*self.english[1], *self.german[1])
        self.parts = {place.name: place.category for place in places if place.category not in ("not", "rel")}


@dataclass(frozen=True)
class Phrase:
    """A derivation: a rule, and what stands in its places."""

    rule: Rule
    items: Mapping[str, Item]

    @cached_property
    def inner(self) -> str | None:
        """The agreement of the words in the phrase; None if the surrounding phrase determines it."""
        places = [place for place in self.rule.german[1] if place.name in self.items]
        nominative = [place for place in places if "n" in place.tags]
        for place in nominative or [place for place in places if "case" not in place.features]:
            agreement = self.items[place.name].agreement
            if agreement:
                return "p" if "p" in place.tags else agreement
        return None

    @property
    def agreement(self) -> str | None:
        """The agreement of other phrases with this one; None for clauses, which are not subjects."""
        return None if self.rule.clause else self.inner

    def _inherited(self, features: Features) -> Features:
        """The features of the parts: a clause has a tense, a negation and an order of its own."""
        inherited = features._replace(agreement=self.inner or features.agreement)
        return inherited._replace(form="present", negated=False, order="second") if self.rule.clause else inherited

    def english(self, features: Features) -> str:
        inherited, (text, places) = self._inherited(features), self.rule.english
        return text + "".join(
            self.items[place.name].english(inherited._replace(**place.features)) + place.after for place in places
        )

    def german(self, features: Features) -> str:
        inherited, (text, places) = self._inherited(features), self.rule.german
        subject_end = 0
        for place in places:
            here, item = inherited._replace(**place.features), self.items.get(place.name)
            if item:
                said = item.german(here)
            elif place.category == "rel":
                said = RELATIVE[features.agreement][here.case]
            else:
                said = "nicht" if inherited.negated else ""
            if isinstance(item, Determiner):
                inherited = inherited._replace(declension=item.declension)
            # One negation is enough.
            if said == "nicht" or re.search(r"\bkein", said):
                inherited = inherited._replace(negated=False)
            text += said
            if "n" in place.tags and not subject_end:
                subject_end = len(text)
            text += place.after
        return _verb_placed(text, features.order, subject_end) if self.rule.clause else text


def _verb_placed(text: str, order: str, subject_end: int) -> str:
    """A clause with its finite verb moved: Anna das Buch gelesen ^hat → Anna hat das Buch gelesen."""
    match = _FINITE.search(text)
    if not match or order == "last":
        return text.replace(FINITE, "")
    rest, at = text[: match.start()] + text[match.end() :], subject_end if order == "second" else 0
    return f"{rest[:at]} {match[1]} {rest[at:]}"


class Grammar:
    """Words and rules by category. held_out: whether the compounds that are left out of training may occur."""

    def __init__(self, text: str, held_out: bool = True) -> None:
        self.words: dict[str, list[Item]] = {}
        self._held_out = held_out
        self._rules: dict[str, list[str]] = {}
        self._modifiers: dict[str, str] = {}
        self._choices: dict[str, tuple[list[Rule], list[int]]] = {}
        for header, entries in _sections(text):
            self._read(header, entries)

    def derive(self, category: str, rng: Random) -> Item:
        """A random word or phrase of the category."""
        if words := self.words.get(category):
            return words[int(rng.random() * len(words))]
        if category not in self._choices:
            self._choices[category] = self._weighted_rules(category)
        rules, weights = self._choices[category]
        rule = rng.choices(rules, cum_weights=weights)[0]
        return Phrase(rule, {name: self.derive(part, rng) for name, part in rule.parts.items()})

    def _weighted_rules(self, category: str) -> tuple[list[Rule], list[int]]:
        """The rules of a category, or those of NP.X with X replaced, and their accumulated weights."""
        stem, dot, argument = category.partition(".")
        texts = self._rules.get(category) or self._rules[f"{stem}{dot}{dot and 'X'}"]
        matches = [re.fullmatch(r"(?:(\d+) )?(.*)", re.sub(r"\bX(?=[\d:}])", argument, text)) for text in texts]
        weights = accumulate(int(match[1] or 1) for match in matches if match)
        return [Rule(match[2]) for match in matches if match], list(weights)

    def _read(self, header: str, entries: list[str]) -> None:
        kind, *names = header.split()
        if kind == "rule":
            self._rules[names[0]] = entries
        elif kind == "number":
            self.words[names[0]] = [Word(str(n), str(n)) for n in range(int(names[1]), int(names[2]) + 1)]
        elif kind == "modifier":
            group = dict(entry.split(" ", 1) for entry in entries)
            self._modifiers |= group | {f"@{name}": ", ".join(group) for name in names}
        else:
            items = [ENTRY[kind](*pair) for entry in entries for pair in self._pairs(entry)]
            for name in names:
                self.words.setdefault(name, []).extend(items)

    def _pairs(self, entry: str) -> Iterator[tuple[str, str]]:
        """The English and the German of an entry, or of each of its compounds."""
        english, german, modifiers = (*entry.split(" | "), "", "")[:3]
        if not modifiers:
            yield english, german
        listed = re.sub(r"@\w+", lambda match: self._modifiers[match[0]], modifiers)
        for index, stated in enumerate(filter(None, listed.split(", "))):
            first, _, own = stated.partition("=")
            if self._held_out or index % 8 != _HELD_OUT:
                yield own or english.replace("~", self._modifiers[first]), german.replace("~", first)


def _sections(text: str) -> Iterator[tuple[str, list[str]]]:
    """Headers, and their entries."""
    text = re.sub(r"(?m)^#.*\n|^\n", "", text)
    for section in re.split(r"\n(?=\S)", re.sub(r"\n {4,}", " ", text).strip()):
        header, _, entries = section.replace("\n", ": ", 1).partition(": ")
        yield header, [entry.strip() for entry in re.split(r"[;\n]", entries) if entry.strip()]
