"""Documents: which one a segment is of, and where in it, from its source through cleaning to whoever packs segments."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from subgraft.data.text.fields import Sides


class Place(NamedTuple):
    """The document of a segment and its number there. Of neighbours in a text the numbers differ by one.

    It travels behind a segment's fields, and lies in a corpus, as one more text: document, tab, number.
    """

    document: str
    position: int

    def __str__(self) -> str:
        return f"{self.document}\t{self.position}"

    @classmethod
    def parse(cls, text: str) -> Place:
        """Of what `str` wrote."""
        document, _, position = text.rpartition("\t")
        return cls(document, int(position))


class Run(NamedTuple):
    """Segments [start, stop) of a split that are neighbours in one document, with nothing missing between them."""

    document: str
    start: int
    stop: int


def runs(places: Iterable[str]) -> Iterator[Run]:
    """The documents of a split as runs of neighbours: one with gaps is several, of the same name."""
    start, before = 0, None
    at = -1
    for at, text in enumerate(places):
        place = Place.parse(text)
        if before is not None and not _follows(place, before):
            yield Run(before.document, start, at)
            start = at
        before = place
    if before is not None:
        yield Run(before.document, start, at + 1)


def count_documents(segments: Iterable[Sides], counts: Counter[str]) -> Iterator[Sides]:
    """The segments, whose last cell is their place; counts "documents", and as "broken" those with a gap in them."""
    before, broken = None, False
    for cells in segments:
        place = Place.parse(cells[-1])
        if before is None or place.document != before.document:
            counts["documents"] += 1
            broken = False
        elif not broken and not _follows(place, before):
            counts["broken"] += 1
            broken = True
        before = place
        yield cells


def whole_documents(sizes: Sequence[int], limit: int) -> list[bool]:
    """Which documents of these sizes to take, evenly spaced, so that they have at most `limit` segments together."""
    whole, taken, seen = sum(sizes), 0, 0
    chosen: list[bool] = []
    for size in sizes:
        seen += size
        fits = (taken + size) * whole <= limit * seen
        taken += size * fits
        chosen.append(fits)
    return chosen


def _follows(place: Place, before: Place) -> bool:
    return place == (before.document, before.position + 1)
