"""German word formation: compounds with their linking elements, and derivation by affixes.

Linking elements follow the first part (Duden, Die Grammatik, chapter on Fugenelemente): -s after the suffixes -ung,
-heit, -keit, -schaft, -ion, -tät, -tum; all else is a matter of the word and is said by the lexicon.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from hashlib import sha256

from subgraft.text.generated import english
from subgraft.text.generated.words import Noun, rows, stem

_LINKING_SUFFIXES = ("ung", "heit", "keit", "schaft", "ion", "tät", "tum")
# Of a hundred compounds, this many are kept from training, with all that are built on them.
_HELD_OUT_PERCENT = 12


@dataclass(frozen=True, slots=True)
class Compound:
    """A compound noun, its class in the lexicon, and the parts it is made of."""

    noun: Noun
    kind: str
    first: str
    last: str
    held_out: bool


def linked(word: str, stated: str = "") -> str:
    """The first part of a compound with its linking element: Kündigung → Kündigungs; stated: where no rule tells."""
    return stated or (word + "s" if word.endswith(_LINKING_SUFFIXES) else word)


def derived(base: str, suffix: str) -> str:
    """A word by derivation: kündigen + ung → Kündigung, + bar → kündbar, + un+bar → unkündbar."""
    if suffix.startswith("un+"):
        word = "un" + derived(base, suffix[3:]).lower()
        return word.capitalize() if suffix.endswith("keit") else word
    if suffix == "ung":
        return f"{base[:-3]}lung".capitalize() if base.endswith("eln") else f"{stem(base)}ung".capitalize()
    if suffix in ("bar", "barkeit"):
        word = stem(base).removesuffix("ig") + suffix
        return word.capitalize() if suffix == "barkeit" else word
    if suffix in ("heit", "keit"):
        return f"{base}{suffix}".capitalize()
    return (linked(base) if suffix in ("widrig", "pflichtig") else base).lower() + suffix


def _modifiers(table: str) -> dict[str, tuple[str, str]]:
    """By German word: the linked form, and the English modifier."""
    found = {}
    for german, translated in rows(table):
        word, _, stated = german.partition(",")
        found[word] = (linked(word, stated), translated)
    return found


def build(modifiers_table: str, heads_table: str) -> tuple[Compound, ...]:
    """Every allowed compound. Heads: German[,linked] | gender | plural | English with ~ | class | modifiers.

    A modifier is a word of the first table or a compound built by an earlier line; *word=English* states the English
    of one compound where it is not the sum of its parts.
    """
    modifiers = _modifiers(modifiers_table)
    found: dict[str, Compound] = {}
    for german, gender, plural, pattern, kind, allowed in rows(heads_table):
        head, _, stated = german.partition(",")
        for entry in allowed.split(","):
            first, _, own = entry.strip().partition("=")
            link, modifier = modifiers[first]
            noun = _compound(link, head, gender, plural, own or pattern, modifier)
            inherited = first in found and found[first].held_out
            found[noun.german] = Compound(noun, kind, first, head, inherited or _chosen(noun.german))
            # What is given in the table as a modifier keeps its own linked form and its own English.
            again = link + stated.lower() if stated else linked(noun.german)
            modifiers.setdefault(noun.german, (again, noun.english))
    return tuple(found.values())


def _compound(link: str, head: str, gender: str, plural: str, pattern: str, modifier: str) -> Noun:
    singular, _, many = (side.replace("~", modifier) for side in pattern.partition("/"))
    german = link + head.lower()
    german_plural = link + plural.lower() if plural != "-" else ""
    english_plural = (many or english.plural(singular)) if german_plural else ""
    return Noun(singular, english_plural, german, "m" if gender == "w" else gender, german_plural, gender == "w")


def _chosen(word: str) -> bool:
    return int.from_bytes(sha256(word.encode()).digest()[:4], "big") % 100 < _HELD_OUT_PERCENT


def by_kind(compounds: Iterable[Compound], held_out: bool) -> Mapping[str, tuple[Noun, ...]]:
    """The compounds of every class, of those that are held out or of the others."""
    found: dict[str, list[Noun]] = {}
    for compound in compounds:
        if compound.held_out == held_out:
            found.setdefault(compound.kind, []).append(compound.noun)
    return {kind: tuple(words) for kind, words in found.items()}
