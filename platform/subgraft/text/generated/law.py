"""Sentences of the law: obligations, passives, conditions, judgments, with sections, dates and deadlines."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from subgraft.text.generated import clauses, german
from subgraft.text.generated import law_usage as usage
from subgraft.text.generated.clauses import BE, Clause, Complement, sentence
from subgraft.text.generated.draw import Draw, weighted
from subgraft.text.generated.law_events import (
    COMPANIES,
    NAMES,
    QUALITIES,
    VERBS,
    act,
    basis,
    cause,
    date,
    noun_of,
    other_party,
    party,
    passive_of,
    period,
    phrase_of,
)
from subgraft.text.generated.phrases import Gap, NounPhrase, genitive, prepositional
from subgraft.text.generated.words import Adverbial, Noun, verb

Pair = tuple[str, str]

_DECISIONS = (
    verb("decide", "entscheiden,entscheidet,entschied,entschieden"),
    verb("confirm", "bestätigen"),
    verb("hold,held,held", "fest-stellen"),
)
_QUALIFIED = ("agreement", "document", "claim", "change", "clause", "breach", "sum", "party", "court")
_APPLY = verb("apply,applied,applied", "gelten,gilt,galt,gegolten")
_LIABLE = verb("answer,answered,answered for", "haften")
_END = verb("end", "enden")
_BEGIN = verb("begin,began,begun", "beginnen,beginnt,begann,begonnen")
_REPRESENT = verb("represent", "vertreten,vertritt,vertrat,vertreten")
_SUE = verb("sue", "verklagen")
_FREEDOMS = (("obliged", "verpflichtet"), ("entitled", "berechtigt"))
_ASPECTS = {
    "sum": (("amount", "Höhe", "f"), ("payment", "Zahlung", "f")),
    "agreement": (("content", "Inhalt", "m"), ("conclusion", "Abschluss", "m"), ("duration", "Dauer", "f")),
    "deadline": (("beginning", "Beginn", "m"), ("length", "Länge", "f")),
    "claim": (("scope", "Umfang", "m"), ("basis", "Grundlage", "f")),
    "duty": (("scope", "Umfang", "m"), ("purpose", "Zweck", "m")),
}
_ASPECT_VERBS = (
    verb("determine", "bestimmen"),
    verb("examine", "prüfen"),
    verb("confirm", "bestätigen"),
)


def _both(clause: Clause, front: Adverbial | None = None, comma: str = ",") -> Pair:
    lead = front or Adverbial("", "")
    before = lead.english + comma if front else ""
    return sentence(clauses.english_main(clause, before)), sentence(clauses.german_main(clause, lead.german))


def _obligation(draw: Draw) -> Pair:
    clause = replace(act(draw, party(draw)), modal=draw.choose(("müssen", "können", "dürfen", "sollen")))
    if draw.chance(0.5):
        clause = replace(clause, manner=draw.choose(usage.MANNERS))
    if draw.chance(0.4):
        clause = replace(clause, place=period(draw, "within", "innerhalb von"))
    if clause.modal in ("dürfen", "müssen") and draw.chance(0.3):
        clause = replace(clause, negated=True)
    return _both(clause, basis(draw) if draw.chance(0.7) else cause(draw))


def _demanded(draw: Draw) -> Pair:
    clause = replace(passive_of(draw, draw.chance(0.4)), modal=draw.choose(("müssen", "können", "dürfen")))
    place = period(draw, "within", "innerhalb von") if draw.chance(0.5) else None
    clause = replace(clause, place=place, negated=clause.modal != "können" and draw.chance(0.25))
    return _both(clause, basis(draw) if draw.chance(0.6) else None)


def _done(draw: Draw) -> Pair:
    clause = replace(passive_of(draw, agent=True), tense="preterite", time=date(draw))
    if draw.chance(0.4):
        return _both(replace(clause, time=None), cause(draw))
    return _both(clause)


def _conditional(draw: Draw) -> Pair:
    """If somebody does something, somebody else may do something."""
    condition = act(draw, party(draw), proper=False)
    if draw.chance(0.3):
        condition = replace(condition, negated=True)
    lead = f"if {clauses.english_main(condition)}", f"{clauses.german_subordinate(condition, 'wenn')},"
    other = other_party(draw, condition.subject)
    outcome = replace(act(draw, other, definite=True), modal=draw.choose(("können", "müssen", "dürfen")))
    return _both(outcome, Adverbial(*lead))


def _judgment(draw: Draw) -> Pair:
    """The court in Bonn decided that …"""
    court = NounPhrase(noun_of(draw, "court"), after=None)
    if draw.chance(0.5):
        town = draw.choose(usage.TOWNS)
        court = court.followed(Adverbial(f"in {town}", f"in {town}"))
    held = passive_of(draw, agent=draw.chance(0.3)) if draw.chance(0.4) else act(draw, party(draw))
    held = replace(held, modal=draw.choose(("müssen", "können", "dürfen")))
    if draw.chance(0.4):
        kind = draw.choose(("agreement", "document", "clause", "claim", "change"))
        held = _quality(draw, kind, draw.chance(0.2))
    that = f"that {clauses.english_main(held)}", f", {clauses.german_subordinate(held, 'dass')}"
    return _both(Clause(court, draw.choose(_DECISIONS), tense="preterite", then=Adverbial(*that)))


def _quality(draw: Draw, kind: str, negated: bool = False) -> Clause:
    quality = draw.choose(QUALITIES[kind])
    subject = replace(phrase_of(draw, kind, definite=True), adjective=None)
    return Clause(subject, BE, predicate=Adverbial(quality.english, quality.german), negated=negated)


def _qualified(draw: Draw) -> Pair:
    clause = _quality(draw, draw.choose(_QUALIFIED))
    return _both(clause, draw.choose((cause, basis))(draw))


def _relative(draw: Draw) -> Pair:
    """The contract that the buyer concluded on 3 May is void."""
    kind = draw.choose(("agreement", "claim", "document", "sum", "clause", "change"))
    head = phrase_of(draw, kind, definite=True)
    inner = Clause(
        party(draw), draw.choose(VERBS[kind]), tense="preterite", time=date(draw) if draw.chance(0.6) else None
    )
    pronoun = german.RELATIVE[head.gender][german.ACCUSATIVE]
    after = Adverbial(f"that {clauses.english_main(inner)}", f", {clauses.german_subordinate(inner, pronoun)},")
    quality = _quality(draw, kind, negated=draw.chance(0.3))
    return _both(replace(quality, subject=replace(head, adjective=None, after=after)))


def _relative_party(draw: Draw) -> Pair:
    """The tenant who does not pay the rent …"""
    head = NounPhrase(noun_of(draw, "party"), draw.choose(("der", "ein")))
    inner = replace(act(draw, Gap(head.person, head.gender), proper=False), negated=draw.chance(0.3))
    pronoun = german.RELATIVE[head.gender][german.NOMINATIVE]
    after = Adverbial(f"who {clauses.english_main(inner)}", f", {clauses.german_subordinate(inner, pronoun)},")
    outer = act(draw, head.followed(after), definite=True)
    return _both(replace(outer, modal=draw.choose(("müssen", "können", "dürfen"))))


def _aspect(draw: Draw) -> Pair:
    """The amount of the purchase price is determined by the court."""
    kind = draw.choose(tuple(_ASPECTS))
    english, word, gender = draw.choose(_ASPECTS[kind])
    of = genitive(replace(phrase_of(draw, kind, definite=True), adjective=None))
    subject = NounPhrase(Noun(english, "", word, gender, ""), after=of)
    by = Complement(NounPhrase(noun_of(draw, "court")), german.DATIVE, ("by", "von"))
    clause = Clause(
        subject, draw.choose(_ASPECT_VERBS), (by,), passive=True, tense=draw.choose(("present", "preterite"))
    )
    return _both(clause, basis(draw) if draw.chance(0.4) else None)


def _freedom(draw: Draw) -> Pair:
    """The debtor is obliged to refund the deposit."""
    english, state = draw.choose(_FREEDOMS)
    aim = act(draw, party(draw))
    if draw.chance(0.4):
        aim = replace(aim, manner=draw.choose(usage.MANNERS))
    to = Adverbial(clauses.english_infinitive(aim), f", {clauses.german_infinitive(aim)}")
    clause = Clause(aim.subject, BE, predicate=Adverbial(english, state), negated=draw.chance(0.2), then=to)
    return _both(clause, basis(draw) if draw.chance(0.6) else cause(draw))


def _application(draw: Draw) -> Pair:
    """The exclusion of liability does not apply to the material defect."""
    subject = phrase_of(draw, draw.choose(("liability", "clause", "deadline", "duty", "protection")), definite=True)
    scope = phrase_of(draw, draw.choose(("agreement", "damage", "defect", "breach", "document", "claim")))
    to = Complement(scope, german.ACCUSATIVE, ("to", "für"))
    return _both(Clause(subject, _APPLY, (to,), negated=draw.chance(0.4)), basis(draw) if draw.chance(0.5) else None)


def _liability(draw: Draw) -> Pair:
    for_what = Complement(phrase_of(draw, draw.choose(("damage", "defect", "breach"))), german.ACCUSATIVE, ("", "für"))
    clause = Clause(party(draw), _LIABLE, (for_what,), negated=draw.chance(0.2))
    return _both(clause, draw.choose((basis, cause))(draw))


def _term(draw: Draw) -> Pair:
    """The payment deadline begins on 3 May 2019 and ends after three weeks."""
    subject = phrase_of(draw, draw.choose(("deadline", "agreement", "procedure")), definite=True)
    if draw.chance(0.5):
        return _both(Clause(subject, _END, place=period(draw, "after", "nach")), basis(draw))
    begun = Clause(subject, _BEGIN, tense="preterite", time=date(draw))
    return _both(begun)


def _counsel(draw: Draw) -> Pair:
    """The lawyer for tenancy law represents …"""
    field = noun_of(draw, "field")
    lawyer = NounPhrase(Noun("lawyer", "lawyers", "Anwalt", "m", "Anwälte"), draw.choose(("der", "ein")))
    lawyer = lawyer.followed(Adverbial(f"for {field.english}", f"für {field.german}"))
    where = prepositional(phrase_of(draw, "procedure", definite=True), ("in", "in"), german.DATIVE)
    client = Complement(party(draw))
    return _both(Clause(lawyer, _REPRESENT, (client,), tense=draw.choose(("present", "preterite")), place=where))


def _suit(draw: Draw) -> Pair:
    """Ms Vogt sued Orbis GmbH because of the breach of contract."""
    clause = Clause(draw.choose(NAMES), _SUE, (Complement(draw.choose(COMPANIES)),), tense="preterite", time=date(draw))
    return _both(replace(clause, then=cause(draw)))


_TEMPLATES: tuple[Callable[[Draw], Pair], ...] = weighted(
    (5, _obligation),
    (4, _demanded),
    (4, _done),
    (5, _conditional),
    (4, _judgment),
    (3, _qualified),
    (3, _relative),
    (3, _relative_party),
    (3, _aspect),
    (3, _freedom),
    (3, _application),
    (2, _liability),
    (2, _term),
    (1, _counsel),
    (1, _suit),
)


def law_pair(draw: Draw) -> Pair:
    """A sentence of the law in English and German."""
    return draw.choose(_TEMPLATES)(draw)
