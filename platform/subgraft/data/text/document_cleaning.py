"""Cleaning of whole documents, and sources that are read repeatedly (ERNIE 3; Sun et al., 2021, section 3.3.1)."""

from __future__ import annotations

import json
import tempfile
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby
from pathlib import Path

from subgraft.config.corpora import Cleaning
from subgraft.data.text.cleaning import digests
from subgraft.data.text.deduplication import SegmentDigests
from subgraft.data.text.fields import Place, Sides


def clean_documents(
    segments: Iterable[Sides], cleaning: Cleaning, counts: Counter[str], texts: Sequence[int], folder: Path | None
) -> Iterator[Sides]:
    """Segments without repeated runs, and without documents that came before. The last cell is a segment's place.

    The segment after a dropped run becomes its document's next segment, so that the document has no gap.

    Args:
        counts: Receives "read", "repeated" and "same_document", of dropped segments.
        texts: The indices of text cells, by which segments are equal.
        folder: A folder for large sets of digests.
    """
    seen = SegmentDigests(folder)
    for document, cells_of in groupby(segments, lambda cells: Place.parse(cells[-1]).document):
        whole = list(cells_of)
        sides = [tuple(side.strip() for side in (cells[at] for at in texts)) for cells in whole]
        left = list(range(len(whole)))
        if cleaning.drop_repeats is not None:
            left = without_repeats(sides, cleaning.drop_repeats)
            _drop("repeated", len(whole) - len(left), counts)
        if cleaning.deduplicate_documents is not None:
            key = _longest([sides[place] for place in left], cleaning.deduplicate_documents)
            if not seen.new(digests([key]))[0]:
                _drop("same_document", len(left), counts)
                continue
        first = Place.parse(whole[0][-1]).position
        complete = len(left) == len(whole)
        for number, place in enumerate(left):
            cells = whole[place]
            yield cells if complete else (*cells[:-1], str(Place(document, first + number)))


def without_repeats(items: Sequence[object], longest: int) -> list[int]:
    """The places of items that remain without runs of at most `longest` that repeat the run right before them."""
    left = list[int]()
    for place in range(len(items)):
        left.append(place)
        for size in range(1, min(longest, len(left) // 2) + 1):
            latest, before = left[-size:], left[-2 * size : -size]
            if all(items[one] == items[other] for one, other in zip(latest, before, strict=True)):
                del left[-size:]
                break
    return left


def in_part(document: str, number: int) -> str:
    """The name of a document of a part, which no other part has."""
    return f"{number}/{document}"


def multiplied(
    segments: Iterable[Sides], times: Sequence[int], counts: Counter[str], folder: Path | None, documented: bool = False
) -> Iterator[Sides]:
    """Each part's segments several times, part after part. The last cell is the number of the part, and is removed.

    Of documents the last cell is a segment's place, whose document is `in_part`. Copies of a document have its name, so
    that none is taken for another document.

    counts: Receives "multiplied", the further copies, which are also counted as "kept".
    """
    end = None if documented else -1
    for number, of_part in groupby(segments, lambda cells: int(cells[-1].partition("/")[0])):
        further = times[number] - 1
        if not further:
            yield from (cells[:end] for cells in of_part)
            continue
        with tempfile.TemporaryFile("w+", dir=folder, encoding="utf-8") as copy:
            for cells in of_part:
                copy.write(f"{json.dumps(cells[:end])}\n")
                yield cells[:end]
            for _ in range(further):
                copy.seek(0)
                for line in copy:
                    counts["multiplied"] += 1
                    counts["kept"] += 1
                    yield tuple(json.loads(line))


def _longest(segments: Sequence[Sides], count: int) -> Sides:
    """The longest segments, in an order that depends on these alone."""
    of_length = sorted(("\n".join(sides) for sides in segments), key=lambda text: (-len(text), text))
    return tuple(of_length[:count])


def _drop(rule: str, count: int, counts: Counter[str]) -> None:
    if count:
        counts["read"] += count
        counts[rule] += count
