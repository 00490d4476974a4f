"""Cleaning rules for segments, applied while they stream by and counted one by one."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from hashlib import blake2b

from subgraft.config.corpora import Cleaning

# A segment: a cell for each field of the corpus, in order, and behind them its place where it is of a document.
Sides = tuple[str, ...]

# What is dropped, in words, by the name that it is counted under.
RULES: Mapping[str, str] = {
    "too_short": "too short",
    "too_long": "too long",
    "ratio": "unequally long",
    "identical": "the same on both sides",
    "held_out": "in dev or test",
    "elsewhere": "in the task's training pairs",
    "duplicate": "a second time",
}

# Whatever some reader takes for the end of a line (str.splitlines, universal newlines) becomes a space, so that
# everybody who opens a written corpus counts the same lines.
_LINE_BREAKS = str.maketrans(dict.fromkeys("\n\r\x0b\x0c\x1c\x1d\x1e\x85\u2028\u2029", " "))


def dropped_in_words(counts: Mapping[str, int]) -> dict[str, int]:
    """Of what was counted, segments that were dropped, by why."""
    return {words: counts[rule] for rule, words in RULES.items() if counts.get(rule)}


def strip(sides: Sides, counts: Counter[str]) -> Sides:
    """The sides without outer white space and with line breaks inside them replaced; the latter is counted."""
    stripped = tuple(side.strip() for side in sides)
    single = tuple(side.translate(_LINE_BREAKS) for side in stripped)
    if single != stripped:
        counts["line_breaks_replaced"] += 1
    return single


def digest(sides: Sides) -> int:
    """64 bits that stand for the segments: equal ones collide, others do with a chance below 3e-6 in 10 million."""
    return int.from_bytes(blake2b("\n".join(sides).encode("utf-8"), digest_size=8).digest(), "big")


def clean(
    segments: Iterable[Sides],
    cleaning: Cleaning,
    held_out: frozenset[int],
    counts: Counter[str],
    texts: Sequence[int],
    elsewhere: frozenset[int] = frozenset(),
) -> Iterator[Sides]:
    """The stripped segments that pass every rule; `counts` gets "read", "kept" and one entry per rule that struck.

    held_out: digests of the stripped dev and test texts.  texts: which cells are text, the only ones that rules are
    about.  elsewhere: digests of what another corpus has already.
    A segment is counted under the first rule it breaks, in the order too_short, too_long, ratio, identical, held_out,
    elsewhere, duplicate.
    """
    known: set[int] = set()
    for cells in segments:
        counts["read"] += 1
        cells = strip(cells, counts)
        sides = tuple(cells[at] for at in texts)
        broken = _broken_rule(sides, cleaning)
        if broken is None and (cleaning.deduplicate or cleaning.drop_held_out):
            broken = _seen_before(digest(sides), cleaning, held_out, elsewhere, known)
        if broken is None:
            yield cells
        counts[broken or "kept"] += 1


def _broken_rule(sides: Sides, cleaning: Cleaning) -> str | None:
    shortest, longest = min(map(len, sides)), max(map(len, sides))
    if shortest < cleaning.min_characters:
        return "too_short"
    if cleaning.max_characters is not None and longest > cleaning.max_characters:
        return "too_long"
    if cleaning.max_ratio is not None and longest > cleaning.max_ratio * shortest:
        return "ratio"
    if cleaning.drop_identical and len(sides) == 2 and sides[0] == sides[1]:
        return "identical"
    return None


def _seen_before(
    digested: int, cleaning: Cleaning, held_out: frozenset[int], elsewhere: frozenset[int], known: set[int]
) -> str | None:
    if cleaning.drop_held_out and digested in held_out:
        return "held_out"
    if cleaning.deduplicate:
        if digested in elsewhere:
            return "elsewhere"
        if digested in known:
            return "duplicate"
        known.add(digested)
    return None
