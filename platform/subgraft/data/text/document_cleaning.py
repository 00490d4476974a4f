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
    """Drop repeated runs of segments, and documents that equal earlier ones. The last cell is a segment's place.

    The segments after a dropped run are renumbered, so that the document has no gap.

    Args:
        segments: The segments, document by document.
        cleaning: The rules.
        counts: Receives "read", "repeated" and "same_document", of dropped segments.
        texts: The indices of the text cells, which are compared.
        folder: A folder for large sets of digests.
    """
    seen = SegmentDigests(folder)
    for document, group in groupby(segments, lambda cells: Place.parse(cells[-1]).document):
        segments_of_document = list(group)
        sides = [tuple(side.strip() for side in (cells[text] for text in texts)) for cells in segments_of_document]
        remaining = list(range(len(segments_of_document)))
        if cleaning.drop_repeats is not None:
            remaining = without_repeats(sides, cleaning.drop_repeats)
            _count_dropped("repeated", len(segments_of_document) - len(remaining), counts)
        if cleaning.deduplicate_documents is not None:
            key = _longest([sides[index] for index in remaining], cleaning.deduplicate_documents)
            if not seen.new(digests([key]))[0]:
                _count_dropped("same_document", len(remaining), counts)
                continue
        first = Place.parse(segments_of_document[0][-1]).position
        complete = len(remaining) == len(segments_of_document)
        for number, index in enumerate(remaining):
            cells = segments_of_document[index]
            yield cells if complete else (*cells[:-1], str(Place(document, first + number)))


def without_repeats(items: Sequence[object], max_length: int) -> list[int]:
    """The indices of items after dropping every run of at most `max_length` that repeats the run right before it."""
    remaining = list[int]()
    for index in range(len(items)):
        remaining.append(index)
        for size in range(1, min(max_length, len(remaining) // 2) + 1):
            latest, before = remaining[-size:], remaining[-2 * size : -size]
            if all(items[one] == items[other] for one, other in zip(latest, before, strict=True)):
                del remaining[-size:]
                break
    return remaining


def name_in_part(document: str, number: int) -> str:
    """The name of a document of a part, made unique among all parts."""
    return f"{number}/{document}"


def repeat_parts(
    segments: Iterable[Sides], times: Sequence[int], counts: Counter[str], folder: Path | None, documented: bool = False
) -> Iterator[Sides]:
    """Repeat each part's segments, part after part.

    Args:
        segments: The segments of all parts. The last cell is the number of the part and is removed; if `documented`, it
            is the segment's place, with a document named by `name_in_part`.
        times: How often to read each part.
        counts: Receives "multiplied", the number of additional copies, which are also counted as "kept".
        folder: The folder of temporary files.
        documented: Whether segments belong to documents. Copies of a document have the same name, so that they are not
            counted as other documents.
    """
    end = None if documented else -1
    for number, of_part in groupby(segments, lambda cells: int(cells[-1].partition("/")[0])):
        extra_copies = times[number] - 1
        if not extra_copies:
            yield from (cells[:end] for cells in of_part)
            continue
        with tempfile.TemporaryFile("w+", dir=folder, encoding="utf-8") as copy:
            for cells in of_part:
                copy.write(f"{json.dumps(cells[:end])}\n")
                yield cells[:end]
            for _ in range(extra_copies):
                copy.seek(0)
                for line in copy:
                    counts["multiplied"] += 1
                    counts["kept"] += 1
                    yield tuple(json.loads(line))


def _longest(segments: Sequence[Sides], count: int) -> Sides:
    """The longest segments, in an order that depends only on their text."""
    of_length = sorted(("\n".join(sides) for sides in segments), key=lambda text: (-len(text), text))
    return tuple(of_length[:count])


def _count_dropped(rule: str, count: int, counts: Counter[str]) -> None:
    if count:
        counts["read"] += count
        counts[rule] += count
