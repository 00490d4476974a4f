"""What the lexicon says of a word, and how its tables are read: one word a line, fields between bars."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from subgraft.text.generated import english


@dataclass(frozen=True, slots=True)
class Noun:
    """A noun in both languages. gender: m, f or n; weak: declined like *der Kunde, den Kunden*; "" for no plural."""

    english: str
    english_plural: str
    german: str
    gender: str
    plural: str
    weak: bool = False


@dataclass(frozen=True, slots=True)
class Verb:
    """A verb in both languages by its principal parts, and what it governs.

    particle: what follows the English verb (pick *up*).  prefix: the separable one (*ab*holen).  present: the third
    person singular; auxiliary: of the perfect tense.  slot: classes of nouns the object is drawn from.
    """

    english: str
    english_past: str
    english_participle: str
    particle: str
    infinitive: str
    prefix: str
    present: str
    past: str
    participle: str
    auxiliary: str
    slot: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Adjective:
    """An adjective in both languages; stem: what endings are put to (teuer → teur)."""

    english: str
    german: str
    stem: str


@dataclass(frozen=True, slots=True)
class Adverbial:
    """An adverb or prepositional phrase, fixed in both languages."""

    english: str
    german: str


def rows(table: str) -> Iterator[list[str]]:
    """The fields of every line; an indented one carries on the line before it."""
    for line in table.strip().replace("\n    ", " ").splitlines():
        yield [field.strip() for field in line.split("|")]


def listed(text: str) -> tuple[str, ...]:
    """The words of a line."""
    return tuple(text.split())


def noun(named: str, german: str, gender: str, plural: str) -> Noun:
    """A noun from its fields. named: "house", or "child/children"; gender w: weak masculine; plural "-": none."""
    singular, _, given = named.partition("/")
    many = "" if plural == "-" else given or english.plural(singular)
    return Noun(singular, many, german, "m" if gender == "w" else gender, plural.strip("-"), gender == "w")


def nouns(table: str) -> tuple[Noun, ...]:
    """Lines of English | German | gender | plural."""
    return tuple(noun(*fields[:4]) for fields in rows(table))


def verbs(table: str) -> tuple[Verb, ...]:
    """Lines of English | German | slot; principal parts with commas where they are not regular, * for *sein*."""
    return tuple(verb(fields[0], fields[1], tuple(" ".join(fields[2:]).split())) for fields in rows(table))


def verb(named: str, german: str, slot: Sequence[str] = ()) -> Verb:
    """A verb from "pick up" or "buy,bought,bought" and "ab-holen" or "lesen,liest,las,gelesen"."""
    forms, _, particle = named.partition(" ")
    parts = forms.split(",")
    past, participle = parts[1:] if len(parts) == 3 else (english.past(forms), english.past(forms))
    auxiliary = "sein" if german.endswith("*") else "haben"
    stated, *irregular = german.rstrip("*").split(",")
    prefix, _, infinitive = stated.rpartition("-")
    present, preterite, perfect = irregular or _regular(infinitive, prefix)
    perfect = prefix + perfect
    return Verb(
        *(parts[0], past, participle, particle), infinitive, prefix, present, preterite, perfect, auxiliary, tuple(slot)
    )


def stem(infinitive: str) -> str:
    """The stem of a German verb: kaufen → kauf, liefern → liefer."""
    return infinitive[:-1] if infinitive.endswith(("ern", "eln")) else infinitive[:-2]


_INSEPARABLE = ("be", "ver", "ent", "er", "zer", "über", "unter", "hinter", "wider")
# They begin like an inseparable prefix and have none.
_PLAIN = ("beten", "erben", "betteln")


def _regular(infinitive: str, prefix: str) -> tuple[str, str, str]:
    root = stem(infinitive)
    link = "e" if root.endswith(("t", "d", "chn", "ffn", "gn")) else ""
    inseparable = infinitive.startswith(_INSEPARABLE) and infinitive not in _PLAIN
    bare = infinitive.endswith("ieren") or (inseparable and not prefix)
    return f"{root}{link}t", f"{root}{link}te", f"{'' if bare else 'ge'}{root}{link}t"


def adjectives(table: str) -> tuple[Adjective, ...]:
    """Lines of English | German, with the stem after a comma where endings change it."""
    return tuple(adjective(*fields) for fields in rows(table))


def adjective(named: str, german: str) -> Adjective:
    """An adjective from "expensive" and "teuer,teur"."""
    plain, _, changed = german.partition(",")
    return Adjective(named, plain, changed or plain)


def adverbials(table: str) -> tuple[Adverbial, ...]:
    """Lines of English | German."""
    return tuple(Adverbial(*fields) for fields in rows(table))
