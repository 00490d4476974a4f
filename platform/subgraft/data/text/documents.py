"""Documents: the document of each segment and its position there, from the source through cleaning to packing."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from subgraft.data.text.fields import Sides


class Place(NamedTuple):
    """The document of a segment and its position there; positions of neighbours differ by one.

    It follows a segment's fields as one more cell, "document<TAB>position", also in a stored corpus.
    """

    document: str
    position: int

    def __str__(self) -> str:
        return f"{self.document}\t{self.position}"

    @classmethod
    def parse(cls, text: str) -> Place:
        """The inverse of `str`."""
        document, _, position = text.rpartition("\t")
        return cls(document, int(position))


class Run(NamedTuple):
    """Segments [start, stop) of a split that are neighbours in one document, without gaps."""

    document: str
    start: int
    stop: int


def runs(places: Iterable[str]) -> Iterator[Run]:
    """The documents of a split as runs of neighbours; a document with gaps is several runs of the same name."""
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
    """Passes segments on, whose last cell is their place; counts "documents", and "broken" ones, which have a gap."""
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
