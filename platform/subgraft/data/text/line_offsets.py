"""Where the lines of a file begin: found by a pass over it, which of a large file is made once for everybody.

    <cache>/<key>/begins.bin     int64 [n + 1], where each line begins, and the end of the last
    <cache>/<key>/record.json    the text's digest

Eight bytes a line would be 0.8 GB of every worker for 100 million lines; mapped, they are pages that the machine shares
and takes back. See `mapped_arrays`.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np

from subgraft.base.digest_cache import NotedDigests
from subgraft.data.text.mapped_arrays import MappedArrays, mapped

# Of a smaller file the lines are found in less time than their places are looked up, and take a few MiB.
LEAST_BYTES = 1 << 26
_FORMAT = 1
_SCANNED_AT_ONCE = 1 << 24
_NEW_LINE = 10


def line_begins(path: Path, cache: Path | None) -> np.ndarray:
    """Where each line begins, and the end of the last [n + 1]. cache: of encoded text, where there is one."""
    if cache is None or path.stat().st_size < LEAST_BYTES:
        return np.concatenate(list(_found(path)))
    digests = NotedDigests(cache.parent)
    made_of = {"format": _FORMAT, "what": "where lines begin", "text": digests.of(path)}
    doing = "finds where the lines of the same text begin"
    arrays = MappedArrays(cache, made_of, {"begins": np.int64}, digests, doing)
    return arrays.made_by(lambda files: _write(files["begins"], path))["begins"]


def _write(begins: Path, path: Path) -> None:
    with begins.open("wb") as file:
        for found in _found(path):
            found.tofile(file)


def _found(path: Path) -> Iterator[np.ndarray]:
    """The same in parts: nothing grows with the file."""
    data, last = mapped(path, np.uint8), 0
    yield np.zeros(1, dtype=np.int64)
    for start in range(0, len(data), _SCANNED_AT_ONCE):
        found = np.flatnonzero(data[start : start + _SCANNED_AT_ONCE] == _NEW_LINE) + start + 1
        yield found
        last = int(found[-1]) if len(found) else last
    if last != len(data):
        yield np.array([len(data)], dtype=np.int64)
