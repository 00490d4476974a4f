"""A clause, and its words in order: main clause, subordinate clause, question and infinitive in both languages."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from subgraft.text.generated import english, german
from subgraft.text.generated.phrases import Nominal
from subgraft.text.generated.words import Adverbial, Verb, verb

BE = verb("be,was,been", "sein,ist,war,gewesen*")

# By German name: the English auxiliary of the present and of the past, "" where a full verb serves.
_MODALS: Mapping[str, tuple[str, str]] = {
    "müssen": ("must", ""),
    "können": ("can", "could"),
    "dürfen": ("may", ""),
    "wollen": ("", ""),
    "sollen": ("should", "should"),
}
# Particles that a pronoun comes before.
_ADVERBS = ("up", "on", "off", "along")


@dataclass(frozen=True, slots=True)
class Complement:
    """What a verb governs: a phrase in a case, with a preposition in either language where there is one."""

    nominal: Nominal
    case: int = german.ACCUSATIVE
    prepositions: tuple[str, str] = ("", "")

    def english(self) -> str:
        return joined((self.prepositions[0], self.nominal.english(objective=True)))

    def german(self, negated: bool = False) -> str:
        text = self.nominal.german(self.case, negated)
        return german.contracted(self.prepositions[1], text) if self.prepositions[1] else text


@dataclass(frozen=True, slots=True)
class Clause:
    """Who does what, when, how and where; tense is one of present, progressive, perfect, preterite, future.

    English has one past for the German perfect (spoken) and preterite (written), German one present for the English
    simple and progressive one.  predicate: what *to be* says of the subject, always with the verb BE.
    """

    subject: Nominal
    verb: Verb
    objects: tuple[Complement, ...] = ()
    tense: str = "present"
    modal: str = ""
    negated: bool = False
    passive: bool = False
    time: Adverbial | None = None
    frequency: Adverbial | None = None
    manner: Adverbial | None = None
    place: Adverbial | None = None
    predicate: Adverbial | None = None
    then: Adverbial | None = None
    """What follows the whole clause: another clause, with its comma."""

    @property
    def past(self) -> bool:
        return self.tense in ("perfect", "preterite")


def joined(parts: Iterable[str]) -> str:
    """The parts that are not empty, with spaces."""
    return " ".join(filter(None, parts))


_STOPS = re.compile(r"\s*,(?:\s*,)*\s*([.?!])?")


def sentence(text: str, mark: str = ".") -> str:
    """The words as a sentence: a capital first, single commas, a mark last."""
    text += mark
    if "," in text:
        text = _STOPS.sub(lambda found: found.group(1) or ", ", text)
    return text[0].upper() + text[1:]


# --- German ---------------------------------------------------------------------------------------------------


def german_main(clause: Clause, front: str = "") -> str:
    """The finite verb second; front: the words before it in place of the subject (inversion)."""
    finite, tail = _german_verbs(clause)
    subject = clause.subject.german(german.NOMINATIVE)
    lead = (front, finite, subject) if front else (subject, finite)
    return joined((*lead, *_german_middle(clause, front), *tail, _german(clause.then)))


def german_subordinate(clause: Clause, lead: str) -> str:
    """The finite verb last, after a conjunction or relative pronoun."""
    finite, tail = _german_verbs(clause)
    verbs = joined(tail[:-1]) + " " + tail[-1] + finite if _parted(clause) else joined((*tail, finite))
    subject = clause.subject.german(german.NOMINATIVE)
    return joined((lead, subject, *_german_middle(clause), verbs.strip(), _german(clause.then)))


def german_question(clause: Clause, asked: str = "") -> str:
    """The finite verb first, or after the word that asks."""
    finite, tail = _german_verbs(clause)
    subject = clause.subject.german(german.NOMINATIVE)
    return joined((asked, finite, subject, *_german_middle(clause), *tail))


def german_infinitive(clause: Clause) -> str:
    """The clause without subject, with *zu*: das Buch zu lesen."""
    return joined((*_german_middle(clause), german.zu_infinitive(clause.verb)))


def german_request(clause: Clause) -> str:
    """The polite imperative: öffnen Sie das Fenster, holen Sie ihn ab."""
    return joined((clause.verb.infinitive, "Sie", *_german_middle(clause), clause.verb.prefix))


def _parted(clause: Clause) -> bool:
    simple = not clause.modal and not clause.passive and clause.tense in ("present", "progressive", "preterite")
    return simple and bool(clause.verb.prefix)


def _german_verbs(clause: Clause) -> tuple[str, list[str]]:
    """The finite verb, and the words at the end of a main clause."""
    person, said = clause.subject.person, clause.verb
    infinitive = said.prefix + said.infinitive
    if clause.modal:
        tail = [said.participle, "werden"] if clause.passive else [infinitive]
        return german.finite(clause.modal, person, clause.past), tail
    if clause.passive:
        return german.finite("werden", person, clause.past), [said.participle]
    if clause.tense == "future":
        return german.finite("werden", person), [infinitive]
    if clause.tense == "perfect" and said is not BE and said.infinitive != "haben":
        return german.finite(said.auxiliary, person), [said.participle]
    return german.finite(said, person, clause.past), [said.prefix] if said.prefix else []


def _german_middle(clause: Clause, front: str = "") -> list[str]:
    """Pronouns, time, objects, negation, manner, place: what is known comes early, what is new comes late."""
    light = [part for part in clause.objects if part.nominal.light and not part.prepositions[1]]
    bare = [part for part in clause.objects if not part.nominal.light and not part.prepositions[1]]
    governed = [part for part in clause.objects if part.prepositions[1]]
    known = [part for part in bare if part.nominal.definite]
    new = [part for part in bare if not part.nominal.definite]
    kein = clause.negated and bool(new) and new[-1].case == german.ACCUSATIVE
    when = [_german(part) for part in (clause.time, clause.frequency)]
    when = [text for text in when if text != front]
    objects = [part.german() for part in known]
    first = [part.german() for part in sorted(light, key=lambda part: part.case)]
    around = [_german(clause.manner), _german(clause.place)]
    around = [text for text in around if text != front]
    last = [part.german(negated=kein) for part in new]
    order = [*objects, *when] if clause.negated else [*when, *objects]
    negation = ["nicht"] if clause.negated and not kein else []
    rest = [part.german() for part in governed]
    return [*first, *order, *negation, *around, *last, *rest, _german(clause.predicate)]


def _german(part: Adverbial | None) -> str:
    return part.german if part else ""


# --- English --------------------------------------------------------------------------------------------------


def english_main(clause: Clause, front: str = "") -> str:
    """Subject, verb, objects, manner, place, time; front: the words before the subject."""
    helper, rest = _english_verbs(clause, asked=False)
    if clause.negated:
        helper = "cannot" if helper == "can" else f"{helper} not"
    often = _english(clause.frequency)
    return joined((front, clause.subject.english(), helper, often, rest, _english_end(clause, front)))


def english_question(clause: Clause, asked: str = "") -> str:
    """The auxiliary before the subject."""
    helper, rest = _english_verbs(clause, asked=True)
    return joined((asked, helper, clause.subject.english(), rest, _english_end(clause, "")))


def english_infinitive(clause: Clause) -> str:
    """The clause without subject: to read the book."""
    return joined(("to", clause.verb.english, _english_end(clause, "")))


def _english(part: Adverbial | None) -> str:
    return part.english if part else ""


def _english_end(clause: Clause, front: str) -> str:
    around = [_english(part) for part in (clause.predicate, clause.manner, clause.place, clause.time)]
    around = [text for text in around if text != front]
    objects = [part.english() for part in clause.objects]
    particle = clause.verb.particle
    if particle in _ADVERBS and clause.objects and clause.objects[0].nominal.light:
        # pick him up, but pick up the child
        objects, particle = [*objects, particle], ""
    return joined((particle, *objects, *around, _english(clause.then)))


def _english_verbs(clause: Clause, asked: bool) -> tuple[str, str]:
    """The auxiliary ("" where there is none) and the rest of the verbs."""
    said, person = clause.verb, clause.subject.person
    base = f"be {said.english_participle}" if clause.passive else said.english
    support = asked or clause.negated
    if clause.modal:
        return _english_modal(clause, base, support)
    if clause.tense == "future":
        return "will", base
    if clause.passive or said is BE:
        return english.be(person, clause.past), said.english_participle if clause.passive else ""
    if clause.tense == "progressive":
        return english.be(person), english.gerund(said.english)
    if clause.past:
        return ("did", base) if support else ("", said.english_past)
    return _present(base, person, support)


def _present(base: str, person: int, support: bool) -> tuple[str, str]:
    if support:
        return "does" if person == 2 else "do", base
    first, space, others = base.partition(" ")
    return "", (english.third_person(first) if person == 2 else first) + space + others


def _english_modal(clause: Clause, base: str, support: bool) -> tuple[str, str]:
    helper = _MODALS[clause.modal][clause.past]
    person = clause.subject.person
    if clause.modal == "müssen" and clause.negated:
        # must not is a ban, muss nicht is not.
        helper = ""
    if helper:
        return helper, base
    if clause.modal == "dürfen":
        return english.be(person, past_tense=True), f"allowed to {base}"
    full, past = ("have", "had") if clause.modal == "müssen" else ("want", "wanted")
    if clause.past:
        return ("did", f"{full} to {base}") if support else ("", f"{past} to {base}")
    return _present(f"{full} to {base}", person, support)
