"""What happens in everyday sentences: who does what to what, when, and where."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from subgraft.text.generated import everyday_verbs as verbs
from subgraft.text.generated import everyday_words as words
from subgraft.text.generated import german
from subgraft.text.generated.clauses import BE, Clause, Complement
from subgraft.text.generated.draw import Draw, weighted
from subgraft.text.generated.everyday_nouns import NOUNS
from subgraft.text.generated.phrases import PRONOUNS, Name, Nominal, NounPhrase, Pronoun, prepositional
from subgraft.text.generated.words import Adverbial, Noun, listed

NAMES = tuple(Name(text, "f") for text in words.WOMEN) + tuple(Name(text, "m") for text in words.MEN)
_BY_POSSESSIVE = {pronoun.own: pronoun for pronoun in PRONOUNS}
# The adjectives that nouns of a class take, where the class has none of its own.
ADJECTIVES_OF = {
    "relative": "person",
    "dish": "food",
    "baked": "food",
    "drink": "food",
    "device": "thing",
    "furniture": "thing",
    "vehicle": "thing",
    "transport": "building",
    "opening": "building",
}
_TIMINGS = ("past", "past", "past", "habit", "often", "now", "future", "modal", "had to")
_MODALS = ("müssen", "können", "wollen", "dürfen", "sollen")
# What one is in, and not what one does at a time; and what happens rather than is being done.
_STATES = listed("know love need")
_HAPPENINGS = listed("forget lose find notice miss cause see hear meet")
_PLACED = listed("eat drink read write buy meet wait work sing dance play learn see sleep find lose forget")


def _noun(draw: Draw, slot: str) -> tuple[str, Noun]:
    kind, _, named = slot.partition(":")
    found = NOUNS[kind]
    return kind, next(noun for noun in found if noun.english == named) if named else draw.choose(found)


def phrase_of(draw: Draw, slot: str, own: str = "", bare: bool = False) -> NounPhrase:
    """A noun of the class with some determiner; own: the possessive that points back at the subject."""
    kind, noun = _noun(draw, slot)
    adjective = None
    if draw.chance(0.3):
        adjective = draw.choose(words.ADJECTIVES.get(ADJECTIVES_OF.get(kind, kind), (None,)))
    if kind == "relative":
        return NounPhrase(noun, own or "mein", adjective=adjective)
    if not noun.plural:
        return NounPhrase(noun, "" if draw.chance(0.6) else "der", adjective=adjective)
    if bare or draw.chance(0.2):
        numeral = draw.choose(words.NUMERALS) if draw.chance(0.4) and kind not in ("mishap", "bill") else None
        return NounPhrase(noun, "" if numeral or draw.chance(0.5) else "der", True, adjective, numeral)
    own = "" if kind == "person" else own
    word = draw.choose(("der", "der", "ein", "ein", "ein", own or "der", "dies"))
    return NounPhrase(noun, word, adjective=adjective)


def subject_of(draw: Draw) -> Nominal:
    """Somebody: a pronoun, a name, a relative or a noun."""
    kind = draw.number(1, 10)
    if kind <= 4:
        return draw.choose(PRONOUNS)
    if kind <= 6:
        return draw.choose(NAMES)
    if kind == 7:
        return NounPhrase(draw.choose(NOUNS["relative"]), draw.choose(("mein", "mein", "unser", "dein", "his", "her")))
    return NounPhrase(
        draw.choose(NOUNS["person"]), draw.choose(("der", "der", "ein", "dies")), plural=draw.chance(0.15)
    )


def known_subject(draw: Draw) -> tuple[Nominal, Pronoun]:
    """A subject, and the pronoun that refers to it."""
    while True:
        subject = subject_of(draw)
        if subject.own in _BY_POSSESSIVE:
            return subject, _BY_POSSESSIVE[subject.own]


def place_of(draw: Draw, direction: bool = False, among: tuple[str, ...] = ()) -> Adverbial:
    """Where something happens, or where somebody goes; among: the English names to choose from."""
    names = [name.replace("_", " ") for name in among]
    places = [place for place in words.PLACES if place[0].english in names] if among else words.PLACES
    noun, rest, motion = draw.choose(places)
    if not direction:
        return prepositional(NounPhrase(noun), rest, german.DATIVE)
    case = german.DATIVE if motion[1] == "zu" else german.ACCUSATIVE
    return prepositional(NounPhrase(noun), motion, case)


# --- What happens: a verb and what it governs -------------------------------------------------------------------


def _transitive(draw: Draw, subject: Nominal) -> Clause:
    said = draw.choose(verbs.TRANSITIVE)
    slot = draw.choose(said.slot)
    if slot in ("person", "relative") and draw.chance(0.25):
        other: Nominal = draw.choose(NAMES) if draw.chance(0.5) else draw.choose(PRONOUNS)
        if other.own != subject.own:
            return Clause(subject, said, (Complement(other),))
    place = place_of(draw) if said.english in _PLACED and draw.chance(0.4) else None
    return Clause(subject, said, (Complement(phrase_of(draw, slot, subject.own)),), place=place)


def _ditransitive(draw: Draw, subject: Nominal) -> Clause:
    said = draw.choose(verbs.DITRANSITIVE)
    relative = phrase_of(draw, "relative", subject.own)
    receivers: tuple[Nominal, ...] = (relative, draw.choose(NAMES), draw.choose(PRONOUNS))
    receiver = draw.choose(receivers)
    if receiver.own == subject.own and not isinstance(receiver, NounPhrase):
        receiver = NounPhrase(draw.choose(NOUNS["person"]))
    given = phrase_of(draw, draw.choose(said.slot))
    return Clause(subject, said, (Complement(receiver, german.DATIVE), Complement(given)))


def _prepositional(draw: Draw, subject: Nominal) -> Clause:
    said = draw.choose(verbs.PREPOSITIONAL)
    preposition, case, *slots = said.slot
    of = Complement(phrase_of(draw, draw.choose(slots), subject.own), int(case), ("", preposition))
    return Clause(subject, said, (of,))


def _helping(draw: Draw, subject: Nominal) -> Clause:
    said = draw.choose(verbs.DATIVE_VERBS)
    return Clause(subject, said, (Complement(phrase_of(draw, draw.choose(said.slot), subject.own), german.DATIVE),))


def _intransitive(draw: Draw, subject: Nominal) -> Clause:
    manner = draw.choose(words.MANNERS) if draw.chance(0.3) else None
    said = draw.choose(verbs.INTRANSITIVE)
    if said.english == "live":
        town = draw.choose(words.TOWNS)
        return Clause(subject, said, place=Adverbial(f"in {town.english}", f"in {town.german}"))
    return Clause(subject, said, manner=manner, place=place_of(draw, among=said.slot) if draw.chance(0.8) else None)


def _motion(draw: Draw, subject: Nominal) -> Clause:
    said = draw.choose(verbs.MOTION)
    if draw.chance(0.35):
        town = draw.choose(words.TOWNS)
        goal = Adverbial(f"to {town.english}", f"nach {town.german}")
    else:
        goal = place_of(draw, direction=True)
    how = None
    if said.english == "go" and draw.chance(0.3):
        said, vehicle = verbs.MOTION[1], draw.choose(NOUNS["transport"])
        said = replace(said, english="go", english_past="went", english_participle="gone")
        how = Adverbial(f"by {vehicle.english}", german.contracted("mit", f"{_dative(vehicle)}"))
    return Clause(subject, said, manner=how, place=goal)


def _dative(noun: Noun) -> str:
    return NounPhrase(noun).german(german.DATIVE)


_Event = Callable[[Draw, Nominal], Clause]
_EVENTS: tuple[_Event, ...] = weighted(
    (11, _transitive),
    (3, _ditransitive),
    (3, _prepositional),
    (1, _helping),
    (3, _intransitive),
    (3, _motion),
)


def _timed(draw: Draw, clause: Clause) -> Clause:
    """The clause in a tense that suits the verb, with a time that suits the tense."""
    name = clause.verb.english
    if name in _STATES:
        return clause
    kind = (
        "past"
        if name in _HAPPENINGS
        else draw.choose(("past", "past", "past", "habit", "often", "now", "future", "modal"))
    )
    if kind == "past":
        return replace(clause, tense="perfect", time=draw.choose(words.PAST_TIMES) if draw.chance(0.7) else None)
    if kind == "habit":
        return replace(clause, time=draw.choose(words.HABITS))
    if kind == "often":
        return replace(clause, frequency=draw.choose(words.FREQUENCIES))
    if kind == "now":
        return replace(clause, tense="progressive", time=draw.choose(words.NOW))
    if kind == "had to":
        # Without sollen, which has one form for present and past.
        return replace(clause, tense="perfect", modal=draw.choose(_MODALS[:4]), time=draw.choose(words.PAST_TIMES))
    when = draw.choose(words.FUTURE_TIMES)
    if kind == "future":
        return replace(clause, tense="future", time=when)
    return replace(clause, modal=draw.choose(_MODALS), time=when if draw.chance(0.4) else None)


def _negated(draw: Draw, clause: Clause) -> Clause:
    if clause.frequency or clause.tense == "progressive" or not draw.chance(0.15):
        return clause
    return replace(clause, negated=True, place=clause.place if clause.verb in verbs.MOTION else None)


def event(draw: Draw, subject: Nominal) -> Clause:
    """Something that somebody does, in some tense, at some time, and now and then not."""
    return _negated(draw, _timed(draw, draw.choose(_EVENTS)(draw, subject)))


def event_in(draw: Draw, subject: Nominal, tense: str) -> Clause:
    """An event without a time of its own, in the perfect or future or simple present."""
    while True:
        clause = draw.choose(_EVENTS)(draw, subject)
        if tense == "perfect" or clause.verb.english not in _HAPPENINGS:
            return replace(clause, tense="present" if clause.verb.english in _STATES else tense)


def state(draw: Draw, subject: Nominal, tense: str = "present") -> Clause:
    """How somebody is: Anna is very tired."""
    return Clause(subject, BE, tense=tense, predicate=degree(draw, "person"), negated=draw.chance(0.15))


def degree(draw: Draw, kind: str) -> Adverbial:
    """A quality that suits the class, with or without a degree: heavy, very heavy."""
    quality = draw.choose(words.ADJECTIVES[kind])
    if kind == "clothes" or draw.chance(0.5):
        return Adverbial(quality.english, quality.german)
    degree = draw.choose(words.DEGREES)
    return Adverbial(f"{degree.english} {quality.english}", f"{degree.german} {quality.german}")
