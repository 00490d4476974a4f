"""A window of a text around a span in it, that ends where sentences do, or at least words."""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence

# The end of a sentence: its mark with quotes and brackets that close behind it, then white space, which languages
# without spaces do not have. An abbreviation before a capital passes for one: a window may begin there, no harm done.
_ENDS = re.compile(r"[.!?…]+[\"'”’)\]]*\s+(?=\S)|[。！？]+[」』”’）]*|\n+")
_SPACES = re.compile(r"\s+")


def window(text: str, start: int, end: int, limit: int) -> tuple[int, int]:
    """Bounds of a stretch of at most `limit` characters that holds text[start:end], which is never cut.

    Whole sentences are added around the span's own, on the side that has less so far while there is room. Where they
    have none, or fill less than half of it, words are added so instead, and for want of those characters. A span that
    is longer than the limit is all there is.
    """
    if len(text) <= limit:
        return 0, len(text)
    if end - start >= limit:
        return start, end
    for limits in (_sentence_limits(text), _word_limits(text), range(len(text) + 1)):
        found = _grown(limits, start, end, limit)
        if found is not None and 2 * (found[1] - found[0]) >= limit:
            return found
    raise AssertionError("characters always fit")


def _sentence_limits(text: str) -> list[int]:
    return _with_ends((found.end() for found in _ENDS.finditer(text) if not text[found.end() :][:1].islower()), text)


def _word_limits(text: str) -> list[int]:
    return _with_ends((found.end() for found in _SPACES.finditer(text)), text)


def _with_ends(places: Iterator[int], text: str) -> list[int]:
    return sorted({0, *places, len(text)})


def _grown(limits: Sequence[int], start: int, end: int, limit: int) -> tuple[int, int] | None:
    """The widest balanced stretch between two of the limits; None where the span's own units have no room."""
    first, last = bisect_right(limits, start) - 1, bisect_left(limits, end)
    if limits[last] - limits[first] > limit:
        return None
    while True:
        before = first > 0 and limits[last] - limits[first - 1] <= limit
        after = last + 1 < len(limits) and limits[last + 1] - limits[first] <= limit
        if not (before or after):
            return limits[first], limits[last]
        if before and (not after or start - limits[first] <= limits[last] - end):
            first -= 1
        else:
            last += 1
