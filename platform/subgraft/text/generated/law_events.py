"""What sentences of the law are made of: who does what to what, under which section, when and why."""

from __future__ import annotations

from subgraft.text.generated import german
from subgraft.text.generated import law_usage as usage
from subgraft.text.generated import law_words as words
from subgraft.text.generated.clauses import Clause, Complement
from subgraft.text.generated.compounds import by_kind
from subgraft.text.generated.draw import Draw
from subgraft.text.generated.law_compounds import COMPOUNDS
from subgraft.text.generated.phrases import Name, Nominal, NounPhrase, genitive
from subgraft.text.generated.words import Adjective, Adverbial, Noun, listed

NAMES = tuple(Name(f"Mr {name}", "m", (f"Herr {name}",) + (f"Herrn {name}",) * 3) for name in usage.SURNAMES)
NAMES += tuple(Name(f"Ms {name}", "f", (f"Frau {name}",) * 4) for name in usage.SURNAMES)
COMPANIES = tuple(
    Name(name, "f", tuple(f"{article} {name}" for article in german.DEFINITE["f"])) for name in usage.COMPANIES
)
_OPEN = by_kind(COMPOUNDS, held_out=False)
_HELD_OUT = by_kind(COMPOUNDS, held_out=True)
# How often a word is a compound, and how often, of the others, a loan.
_COMPOUND_RATE, _LOAN_RATE = 0.6, 0.25
_COMPOUND_RATES = {"party": 0.3, "deadline": 0.8, "duty": 0.8, "damage": 0.8, "defect": 0.8}
# In dev and test a compound that is held out is drawn more often than another, so that there is something to measure.
_HELD_OUT_WEIGHT = 2
_ALL = {kind: found + _HELD_OUT.get(kind, ()) * _HELD_OUT_WEIGHT for kind, found in _OPEN.items()}
_OBJECTS = tuple(dict.fromkeys(slot for said in usage.LAW_VERBS for slot in said.slot))
VERBS = {slot: tuple(said for said in usage.LAW_VERBS if slot in said.slot) for slot in _OBJECTS}
_FAULTS = listed("lose breach neglect miss owe cause commit")
_PROPER = {kind: tuple(said for said in found if said.english not in _FAULTS) for kind, found in VERBS.items()}
# Where something comes from (vertraglich, gesetzlich) is said before the noun, not of it.
QUALITIES = {
    kind: tuple(quality for quality in found if not quality.german.endswith("lich") or quality.german == "erheblich")
    for kind, found in words.LAW_ADJECTIVES.items()
}
_CAUSES = (("because of", "wegen"), ("despite", "trotz"), ("on account of", "aufgrund"))


def noun_of(draw: Draw, kind: str) -> Noun:
    """A word of the class; compounds that are held out only where they may occur."""
    compounds = _ALL if draw.held_out else _OPEN
    if kind in compounds and draw.chance(_COMPOUND_RATES.get(kind, _COMPOUND_RATE)):
        return draw.choose(compounds[kind])
    if kind in words.LOANS and (draw.chance(_LOAN_RATE) or kind not in words.SIMPLE):
        return draw.choose(words.LOANS[kind])
    others = words.SIMPLE.get(kind, ()) + words.DERIVED.get(kind, ())
    return draw.choose(others or compounds[kind])


def phrase_of(draw: Draw, kind: str, definite: bool = False) -> NounPhrase:
    """A word of the class with an article and now and then an adjective; definite: with *the*."""
    noun = noun_of(draw, kind)
    adjective: Adjective | None = None
    if kind in words.LAW_ADJECTIVES and draw.chance(0.25):
        adjective = draw.choose(words.LAW_ADJECTIVES[kind])
    if not noun.plural:
        return NounPhrase(noun, "der", adjective=adjective)
    if draw.chance(0.12):
        return NounPhrase(noun, "der", True, adjective)
    word = "der" if definite else draw.choose(("der", "der", "ein", "dies"))
    return NounPhrase(noun, word, adjective=adjective)


def party(draw: Draw) -> Nominal:
    """Somebody who has rights and duties."""
    kind = draw.number(1, 10)
    if kind == 1:
        return draw.choose(NAMES)
    if kind == 2:
        return draw.choose(COMPANIES)
    return NounPhrase(noun_of(draw, "party"), "ein" if kind == 3 else "der")


def other_party(draw: Draw, one: Nominal) -> Nominal:
    """Somebody else."""
    while (other := party(draw)).english() == one.english():
        pass
    return other


def basis(draw: Draw) -> Adverbial:
    """Under section 14 subsection 2 of the rental act."""
    section, part = draw.number(1, 320), draw.number(1, 6)
    english, german_text = f"under section {section}", f"nach § {section}"
    if draw.chance(0.7):
        english, german_text = f"{english} subsection {part}", f"{german_text} Absatz {part}"
    if draw.chance(0.4):
        of = genitive(NounPhrase(noun_of(draw, "act")))
        english, german_text = f"{english} {of.english}", f"{german_text} {of.german}"
    return Adverbial(english, german_text)


def period(draw: Draw, before: str, before_german: str) -> Adverbial:
    """A number of days, weeks, months or years, after these prepositions."""
    unit, number = draw.choose(usage.UNITS), draw.choose(usage.NUMBERS)
    return Adverbial(f"{before} {number.english} {unit.english}", f"{before_german} {number.german} {unit.german}")


def date(draw: Draw) -> Adverbial:
    """On 3 May 2019."""
    day, month, year = draw.number(1, 28), draw.choose(usage.MONTHS), draw.number(1995, 2024)
    return Adverbial(f"on {day} {month.english} {year}", f"am {day}. {month.german} {year}")


def cause(draw: Draw) -> Adverbial:
    """Because of, or despite, something that happened."""
    english, preposition = draw.choose(_CAUSES)
    of = phrase_of(draw, draw.choose(("breach", "damage", "defect", "change", "matter")), definite=True)
    return Adverbial(f"{english} {of.english()}", f"{preposition} {of.german(german.GENITIVE)}")


def act(draw: Draw, subject: Nominal, definite: bool = False, proper: bool = True) -> Clause:
    """Somebody does something to something of the law; proper: nothing that one should not do."""
    kind = draw.choose(_OBJECTS)
    said = draw.choose(_PROPER[kind] if proper else VERBS[kind])
    return Clause(subject, said, (Complement(phrase_of(draw, kind, definite)),))


def passive_of(draw: Draw, agent: bool) -> Clause:
    """Something is done, by somebody or by nobody that is named."""
    kind = draw.choose(_OBJECTS)
    said = draw.choose([word for word in _PROPER[kind] if word.english != "receive"])
    by = (Complement(party(draw), german.DATIVE, ("by", "von")),) if agent else ()
    return Clause(phrase_of(draw, kind, definite=True), said, by, passive=True)
