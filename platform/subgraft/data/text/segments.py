"""The segments of a file as a sequence with random access; line offsets of large files are memory-mapped."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cached_property
from pathlib import Path
from typing import Self

import numpy as np

from subgraft.base.digest_cache import DigestCache
from subgraft.data.text import reading
from subgraft.data.text.batches import Selectable, evenly_spaced_places
from subgraft.data.text.mapped_arrays import MappedArrays, map_file


class Text(Selectable[str]):
    """All or selected lines of a text of a corpus.

    Args:
        path: The file.
        cache: The shared cache of encoded text and line offsets, if any.
        selected: Line numbers [n], in order; None for all.
    """

    def __init__(self, path: Path, cache: Path | None = None, selected: np.ndarray | None = None) -> None:
        self.path = path
        self.cache = cache
        self.selected = selected

    def __len__(self) -> int:
        return self.whole_size if self.selected is None else len(self.selected)

    @property
    def whole_size(self) -> int:
        """The number of lines in the file."""
        return len(self._offsets) - 1

    def _item(self, index: int) -> str:
        return self._line(index if self.selected is None else int(self.selected[index]))

    def __iter__(self) -> Iterator[str]:
        if self.selected is None:
            return reading.lines(self.path)
        return (self._line(int(line)) for line in self.selected)

    def take(self, indices: np.ndarray) -> Self:
        return type(self)(self.path, self.cache, indices if self.selected is None else self.selected[indices])

    def _line(self, number: int) -> str:
        raw = self._bytes[self._offsets[number] : self._offsets[number + 1]].tobytes()
        line = raw.removesuffix(b"\n").decode("utf-8")
        # As in `reading`, so that both ways of reading yield the same segment.
        return line.removeprefix("\ufeff") if number == 0 else line

    @cached_property
    def _bytes(self) -> np.ndarray:
        return map_file(self.path, np.uint8)

    @cached_property
    def _offsets(self) -> np.ndarray:
        return line_offsets(self.path, self.cache)


class Pairs(Selectable[tuple[str, str]]):
    """Pairs of segments of two parallel texts. source: None for empty sources."""

    def __init__(self, source: Text | None, target: Text) -> None:
        self.source: Sequence[str] = [""] * len(target) if source is None else source
        self.target = target

    def __len__(self) -> int:
        return len(self.target)

    def _item(self, index: int) -> tuple[str, str]:
        return self.source[index], self.target[index]

    def __iter__(self) -> Iterator[tuple[str, str]]:
        return zip(self.source, self.target, strict=True)

    def evenly_spaced(self, count: int | None) -> Self:
        """`count` of the pairs, evenly spaced and in order; all of them if count is None or there are fewer."""
        if count is None or count >= len(self):
            return self
        return self.take(evenly_spaced_places(len(self), count))

    def take(self, indices: np.ndarray) -> Self:
        source = self.source.take(indices) if isinstance(self.source, Text) else None
        return type(self)(source, self.target.take(indices))


def sides(pairs: Sequence[tuple[str, str]]) -> tuple[Sequence[str], Sequence[str]]:
    """The sources and the targets."""
    if isinstance(pairs, Pairs):
        return pairs.source, pairs.target
    return [pair[0] for pair in pairs], [pair[1] for pair in pairs]


# The offsets of a file's lines, from one pass over it. Those of a large file are stored for all workers:
#
#     <cache>/<key>/begins.bin     int64 [n + 1], where each line begins, and the end of the last
#     <cache>/<key>/record.json    the text's digest
#
# For 100 million lines they would take 0.8 GB in every worker; mapped, they are pages that the machine shares and can
# release. See `mapped_arrays`. In a smaller file, finding the lines takes less time than looking up their offsets.
MIN_MAPPED_BYTES = 1 << 26
_FORMAT = 1
_SCANNED_AT_ONCE = 1 << 24
_NEW_LINE = 10


def line_offsets(path: Path, cache: Path | None) -> np.ndarray:
    """The beginning of each line, and the end of the last [n + 1]; from the cache for large files, if there is one."""
    if cache is None or path.stat().st_size < MIN_MAPPED_BYTES:
        return np.concatenate(list(_line_ends(path)))
    digests = DigestCache(cache.parent)
    inputs = {"format": _FORMAT, "what": "where lines begin", "text": digests.of(path)}
    activity = "finds where the lines of the same text begin"
    arrays = MappedArrays(cache, inputs, {"begins": np.int64}, digests, activity)
    return arrays.load_or_create(lambda files: _write(files["begins"], path))["begins"]


def _write(path_of_offsets: Path, path: Path) -> None:
    with path_of_offsets.open("wb") as file:
        for ends in _line_ends(path):
            ends.tofile(file)


def _line_ends(path: Path) -> Iterator[np.ndarray]:
    """The offsets of `line_offsets` in parts, with constant memory."""
    data, last = map_file(path, np.uint8), 0
    yield np.zeros(1, dtype=np.int64)
    for start in range(0, len(data), _SCANNED_AT_ONCE):
        ends = np.flatnonzero(data[start : start + _SCANNED_AT_ONCE] == _NEW_LINE) + start + 1
        yield ends
        last = int(ends[-1]) if len(ends) else last
    if last != len(data):
        yield np.array([len(data)], dtype=np.int64)
