"""English inflection: plurals, articles, verb forms."""

from __future__ import annotations

_VOWELS = "aeiou"
# A word is spelled with a vowel and spoken without, or the other way round.
_CONSONANT_SOUND = ("usa", "usu")
_VOWEL_SOUND = ("heir",)
_DOUBLED = frozenset(("plan", "run", "swim", "forget"))


def plural(noun: str) -> str:
    """house → houses, city → cities, box → boxes, knife → knives."""
    if noun.endswith(("s", "x", "ch", "sh")) or noun in ("potato", "tomato"):
        return noun + "es"
    if noun.endswith("y") and noun[-2] not in _VOWELS:
        return noun[:-1] + "ies"
    if noun in ("knife", "wife", "housewife"):
        return noun[:-2] + "ves"
    return noun + "s"


def third_person(verb: str) -> str:
    """go → goes, carry → carries, watch → watches."""
    if verb in ("have", "be"):
        return "has" if verb == "have" else "is"
    if verb.endswith(("s", "x", "ch", "sh", "o", "z")):
        return verb + "es"
    if verb.endswith("y") and verb[-2] not in _VOWELS:
        return verb[:-1] + "ies"
    return verb + "s"


def past(verb: str) -> str:
    """The regular past: play → played, try → tried, plan → planned."""
    if verb.endswith("e"):
        return verb + "d"
    if verb.endswith("y") and verb[-2] not in _VOWELS:
        return verb[:-1] + "ied"
    return _doubled(verb) + "ed"


def gerund(verb: str) -> str:
    """make → making, run → running, lie → lying."""
    if verb.endswith("ie"):
        return verb[:-2] + "ying"
    if verb.endswith("e") and not verb.endswith(("ee", "be")):
        return verb[:-1] + "ing"
    return _doubled(verb) + "ing"


def _doubled(verb: str) -> str:
    return verb + verb[-1] if verb in _DOUBLED else verb


def indefinite(following: str) -> str:
    """The article a or an before these words."""
    vowel = following[0].lower() in _VOWELS and not following.lower().startswith(_CONSONANT_SOUND)
    return "an" if vowel or following.startswith(_VOWEL_SOUND) else "a"


def be(person: int, past_tense: bool = False) -> str:
    """The form of *to be*; person: 0-4 for I, you, he, we, they."""
    if past_tense:
        return "was" if person in (0, 2) else "were"
    return ("am", "are", "is", "are", "are")[person]
