"""Two parallel files as documents of pairs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from pathlib import Path
from typing import TypeAlias

from subgraft.base.errors import UserError
from subgraft.data.text import reading
from subgraft.data.text.cleaning import strip

Pair: TypeAlias = tuple[str, str]


@dataclass(frozen=True)
class Documents:
    """Pairs in the order of their files.

    documents: the whole text is one where no blank lines mark any.  incomplete: lines of which one side is empty.
    """

    documents: tuple[tuple[Pair, ...], ...]
    incomplete: int = 0

    @property
    def pairs(self) -> tuple[Pair, ...]:
        return tuple(pair for document in self.documents for pair in document)


def read_documents(source: Path, target: Path) -> Documents:
    """Line by line, plain or gzipped. A line that is blank in both files ends a document.

    Raises UserError for files of different lengths, and as `reading.lines` does.
    """
    documents: list[tuple[Pair, ...]] = []
    current: list[Pair] = []
    incomplete = 0
    for pair in _parallel(source, target):
        if all(pair):
            current.append(pair)
        elif any(pair):
            incomplete += 1
        elif current:
            documents.append(tuple(current))
            current = []
    documents += [tuple(current)] if current else []
    return Documents(tuple(documents), incomplete)


def _parallel(source: Path, target: Path) -> Iterator[Pair]:
    """Stripped lines of both. The rest of the longer file is read only to count it."""
    files, counts = (source, target), [0, 0]
    for sides in zip_longest(*(reading.lines(path) for path in files)):
        counts = [count + (side is not None) for count, side in zip(counts, sides, strict=True)]
        if None not in sides:
            first, second = strip(sides, Counter())
            yield first, second
    if counts[0] != counts[1]:
        raise UserError(
            f"{source} has {counts[0]:,} lines and {target} {counts[1]:,}",
            where="--pairs",
            hint="Line N of one file must be the translation of line N of the other.",
        )


def blocks(pairs: Sequence[Pair], size: int) -> list[tuple[Pair, ...]]:
    """Runs of `size` neighbours, and what is left at the end."""
    return [tuple(pairs[start : start + size]) for start in range(0, len(pairs), size)]
