"""Sentences about people, homes, work, food, travel and time."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from subgraft.text.generated import clauses, german
from subgraft.text.generated import everyday_verbs as verbs
from subgraft.text.generated import everyday_words as words
from subgraft.text.generated.clauses import BE, Clause, Complement, sentence
from subgraft.text.generated.draw import Draw, weighted
from subgraft.text.generated.everyday_events import (
    ADJECTIVES_OF,
    NAMES,
    degree,
    event,
    event_in,
    known_subject,
    phrase_of,
    place_of,
    state,
    subject_of,
)
from subgraft.text.generated.everyday_nouns import NOUNS
from subgraft.text.generated.phrases import Gap, NounPhrase, genitive, prepositional
from subgraft.text.generated.words import Adverbial, verb

Pair = tuple[str, str]

_HAVE = verb("have,had,had", "haben,hat,hatte,gehabt", ("matter", "thing", "animal", "device", "building"))
# Verb, what it is said of, preposition, and the furniture it is said to be at.
_POSITIONS = (
    (verb("lie,lay,lain", "liegen,liegt,lag,gelegen"), "thing", ("on", "auf"), ("table", "bed", "carpet", "sofa")),
    (
        verb("stand,stood,stood", "stehen,steht,stand,gestanden"),
        "device",
        ("next to", "neben"),
        ("bed", "shelf", "chair"),
    ),
    (verb("hang,hung,hung", "hängen,hängt,hing,gehangen"), "clothes", ("behind", "hinter"), ("mirror", "cupboard")),
)
_FURNITURE = {noun.english: noun for noun in NOUNS["furniture"]}
# Das Mädchen would need other possessives in German than the girl in English.
_HEADS = tuple(noun for noun in NOUNS["person"] if noun.gender != "n")
_REASONS = (("because", "weil"), ("although", "obwohl"))
_HINGES = (("before", "bevor"), ("if", "wenn"))
_SAYINGS = (
    verb("say,said,said", "sagen"),
    verb("believe", "glauben"),
    verb("hope", "hoffen"),
    verb("write,wrote,written", "schreiben,schreibt,schrieb,geschrieben"),
)
_ATTEMPTS = (
    verb("try", "versuchen"),
    verb("promise", "versprechen,verspricht,versprach,versprochen"),
    verb("forget,forgot,forgotten", "vergessen,vergisst,vergaß,vergessen"),
    verb("decide", "beschließen,beschließt,beschloss,beschlossen"),
)
_JUDGEMENTS = (
    ("important", "wichtig"),
    ("difficult", "schwierig"),
    ("necessary", "notwendig"),
    ("possible", "möglich"),
)
_LINKS = (("and", "und"), ("but", "aber"))


def _both(clause: Clause, front: Adverbial | None = None) -> Pair:
    lead = front or Adverbial("", "")
    return (
        sentence(clauses.english_main(clause, lead.english)),
        sentence(clauses.german_main(clause, lead.german)),
    )


def _statement(draw: Draw) -> Pair:
    clause = event(draw, subject_of(draw))
    return _both(clause, clause.time if draw.chance(0.4) else None)


def _description(draw: Draw) -> Pair:
    kind = draw.choose(("thing", "building", "text", "event", "clothes", "food", "vehicle", "matter"))
    noun = draw.choose(NOUNS[kind])
    plural = bool(noun.plural) and draw.chance(0.25)
    subject = NounPhrase(noun, draw.choose(("der", "der", "dies", "mein", "unser", "his", "her")), plural)
    predicate = degree(draw, ADJECTIVES_OF.get(kind, kind))
    if draw.chance(0.3):
        owner = NounPhrase(draw.choose(NOUNS["relative"]), draw.choose(("mein", "dein", "unser")))
        subject = replace(subject, word="der").followed(genitive(owner))
    tense = draw.choose(("present", "present", "perfect"))
    return _both(Clause(subject, BE, tense=tense, predicate=predicate, negated=draw.chance(0.2)))


def _passive(draw: Draw) -> Pair:
    """The house was built last year."""
    said = draw.choose([word for word in verbs.TRANSITIVE if word.english in verbs.PASSIVE])
    subject = phrase_of(draw, draw.choose(said.slot))
    clause = Clause(subject, said, tense="preterite", passive=True, time=draw.choose(words.PAST_TIMES))
    return _both(clause, clause.time if draw.chance(0.5) else None)


def _condition(draw: Draw) -> Pair:
    return _both(state(draw, subject_of(draw), draw.choose(("present", "present", "perfect"))))


def _profession(draw: Draw) -> Pair:
    who = draw.choose([noun for noun in NOUNS["relative"] if noun.gender == "m"])
    trade = draw.choose(NOUNS["trade"])
    subject = NounPhrase(who, draw.choose(("mein", "unser", "dein", "his", "her")))
    predicate = Adverbial(NounPhrase(trade, "ein").english(), trade.german)
    tense = draw.choose(("present", "perfect"))
    return _both(Clause(subject, BE, tense=tense, predicate=predicate, negated=draw.chance(0.2)))


def _comparison(draw: Draw) -> Pair:
    kind = draw.choose(("building", "vehicle", "furniture", "device"))
    more = draw.choose(words.COMPARATIVES)
    left = NounPhrase(draw.choose(NOUNS[kind]), draw.choose(("der", "dies", "mein", "unser")))
    right = NounPhrase(draw.choose(NOUNS[kind]), draw.choose(("her", "his", "dein")))
    than = Adverbial(f"{more.english} than {right.english()}", f"{more.german} als {right.german(german.NOMINATIVE)}")
    return _both(Clause(left, BE, predicate=than, tense=draw.choose(("present", "present", "perfect"))))


def _position(draw: Draw) -> Pair:
    said, kind, preposition, places = draw.choose(_POSITIONS)
    noun = draw.choose(NOUNS[kind])
    subject = NounPhrase(noun, draw.choose(("der", "mein", "ein", "his", "her")), draw.chance(0.2))
    if subject.plural and not subject.definite:
        subject = replace(subject, numeral=draw.choose(words.NUMERALS))
    at = NounPhrase(_FURNITURE[draw.choose(places)], draw.choose(("der", "dies", "unser")))
    place = prepositional(at, preposition, german.DATIVE)
    return _both(Clause(subject, said, tense="progressive", place=place))


def _possession(draw: Draw) -> Pair:
    subject = subject_of(draw)
    owned = phrase_of(draw, draw.choose(_HAVE.slot))
    clause = Clause(subject, _HAVE, (Complement(owned),), draw.choose(("present", "present", "perfect")))
    return _both(replace(clause, negated=draw.chance(0.3)))


def _existence(draw: Draw) -> Pair:
    kind = draw.choose(("thing", "furniture", "animal", "person", "device"))
    noun = draw.choose(NOUNS[kind])
    many = draw.choose(words.NUMERALS) if draw.chance(0.4) else None
    quality = draw.choose(words.ADJECTIVES[ADJECTIVES_OF.get(kind, kind)]) if draw.chance(0.4) else None
    there = NounPhrase(noun, "" if many else "ein", bool(many), quality, many)
    place = place_of(draw)
    are = "are" if many else "is"
    return (
        sentence(f"there {are} {there.english()} {place.english}"),
        sentence(f"{place.german} gibt es {there.german(german.ACCUSATIVE)}"),
    )


def _question(draw: Draw) -> Pair:
    clause = event_in(draw, subject_of(draw), draw.choose(("perfect", "future")))
    if draw.chance(0.5):
        return sentence(clauses.english_question(clause), "?"), sentence(clauses.german_question(clause), "?")
    asked = draw.choose(words.QUESTION_WORDS)
    if asked.english == "where":
        clause = replace(clause, place=None)
    english = clauses.english_question(clause, asked.english)
    return sentence(english, "?"), sentence(clauses.german_question(clause, asked.german), "?")


def _request(draw: Draw) -> Pair:
    said = draw.choose([word for word in verbs.TRANSITIVE if word.english in verbs.REQUESTED])
    clause = Clause(Gap(4, "p"), said, (Complement(phrase_of(draw, draw.choose(said.slot))),))
    return (
        sentence(f"please {clauses.english_main(clause)}"),
        sentence(f"bitte {clauses.german_request(clause)}"),
    )


def _reason(draw: Draw) -> Pair:
    """Because and although: what happens, and how somebody is."""
    subject, pronoun = known_subject(draw)
    tense = draw.choose(("perfect", "future"))
    main = event_in(draw, subject, tense)
    cause = state(draw, pronoun, "present" if tense == "future" else "perfect")
    english, conjunction = draw.choose(_REASONS)
    comma = ", " if english == "although" else ""
    back = Adverbial(
        f"{comma}{english} {clauses.english_main(cause)}", f", {clauses.german_subordinate(cause, conjunction)}"
    )
    if draw.chance(0.6):
        return _both(replace(main, then=back))
    cause, main = replace(cause, subject=subject), replace(main, subject=pronoun)
    lead = f"{english} {clauses.english_main(cause)},", f"{clauses.german_subordinate(cause, conjunction)},"
    return _both(main, Adverbial(*lead))


def _when(draw: Draw) -> Pair:
    """If and before: two things that happen."""
    subject, pronoun = known_subject(draw)
    first = event_in(draw, subject, "present")
    second = event_in(draw, pronoun, "present")
    english, conjunction = draw.choose(_HINGES)
    if english == "if":
        second = replace(second, modal=draw.choose(("müssen", "können", "sollen")))
    lead = f"{english} {clauses.english_main(first)},", f"{clauses.german_subordinate(first, conjunction)},"
    return _both(second, Adverbial(*lead))


def _saying(draw: Draw) -> Pair:
    subject = subject_of(draw)
    told = event_in(draw, subject_of(draw), draw.choose(("perfect", "future")))
    that = f"that {clauses.english_main(told)}", f", {clauses.german_subordinate(told, 'dass')}"
    tense = draw.choose(("present", "perfect"))
    return _both(Clause(subject, draw.choose(_SAYINGS), tense=tense, then=Adverbial(*that)))


def _attempt(draw: Draw) -> Pair:
    subject = subject_of(draw)
    aim = event_in(draw, subject, "present")
    to = Adverbial(clauses.english_infinitive(aim), f", {clauses.german_infinitive(aim)}")
    return _both(Clause(subject, draw.choose(_ATTEMPTS), tense="perfect", then=to))


def _judgement(draw: Draw) -> Pair:
    aim = event_in(draw, NounPhrase(NOUNS["person"][0]), "present")
    english, judged = draw.choose(_JUDGEMENTS)
    return (
        sentence(f"it is {english} {clauses.english_infinitive(aim)}"),
        sentence(f"es ist {judged}, {clauses.german_infinitive(aim)}"),
    )


def _relative_subject(draw: Draw) -> Pair:
    """The man who lives in Berlin …"""
    head = NounPhrase(draw.choose(_HEADS))
    gap = Gap(head.person, head.gender, head.own)
    inner = event_in(draw, gap, draw.choose(("perfect", "present")))
    pronoun = german.RELATIVE[head.gender][german.NOMINATIVE]
    after = Adverbial(f"who {clauses.english_main(inner)}", f", {clauses.german_subordinate(inner, pronoun)},")
    outer = replace(event_in(draw, head, "perfect"), subject=head.followed(after))
    return _both(outer if draw.chance(0.4) else state(draw, head.followed(after)))


def _relative_object(draw: Draw) -> Pair:
    """The coat that I bought yesterday …"""
    said = draw.choose([word for word in verbs.TRANSITIVE if set(word.slot) & {"thing", "clothes", "text", "building"}])
    kind = draw.choose([slot for slot in said.slot if slot in ("thing", "clothes", "text", "building")])
    head = NounPhrase(draw.choose(NOUNS[kind]), plural=draw.chance(0.2))
    inner = Clause(subject_of(draw), said, tense="perfect", time=draw.choose(words.PAST_TIMES))
    if said.english == "need":
        inner = replace(inner, tense="present", time=None)
    pronoun = german.RELATIVE[head.gender][german.ACCUSATIVE]
    after = Adverbial(f"that {clauses.english_main(inner)}", f", {clauses.german_subordinate(inner, pronoun)},")
    predicate = degree(draw, ADJECTIVES_OF.get(kind, kind))
    return _both(Clause(head.followed(after), BE, predicate=predicate, negated=draw.chance(0.2)))


def _coordination(draw: Draw) -> Pair:
    tense = draw.choose(("perfect", "future"))
    first = draw.choose(NAMES)
    second = draw.choose([name for name in NAMES if name != first])
    english, link = draw.choose(_LINKS)
    one, other = event_in(draw, first, tense), event_in(draw, second, tense)
    comma = ", " if link == "aber" else " "
    return (
        sentence(f"{clauses.english_main(one)}{comma}{english} {clauses.english_main(other)}"),
        sentence(f"{clauses.german_main(one)}{comma}{link} {clauses.german_main(other)}"),
    )


_TEMPLATES: tuple[Callable[[Draw], Pair], ...] = weighted(
    (16, _statement),
    (4, _description),
    (3, _passive),
    (3, _condition),
    (1, _profession),
    (3, _comparison),
    (2, _position),
    (3, _possession),
    (2, _existence),
    (4, _question),
    (2, _request),
    (4, _reason),
    (3, _when),
    (3, _saying),
    (3, _attempt),
    (2, _judgement),
    (3, _relative_subject),
    (3, _relative_object),
    (2, _coordination),
)


def everyday_pair(draw: Draw) -> Pair:
    """An everyday sentence in English and German."""
    return draw.choose(_TEMPLATES)(draw)
