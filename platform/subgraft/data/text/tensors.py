"""Tensor fields: the rows of each segment, in safetensors files that are read lazily."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from safetensors import SafetensorError, safe_open

from subgraft.base.errors import UserError

# The tensor with the number of rows of each segment, if they differ.
ROWS = "rows"
# Bytes of a number, by safetensors' name of its type.
_BYTES: Mapping[str, int] = {
    **dict.fromkeys(("BOOL", "U8", "I8"), 1),
    **dict.fromkeys(("U16", "I16", "F16"), 2),
    **dict.fromkeys(("U32", "I32", "F32"), 4),
    **dict.fromkeys(("U64", "I64", "F64"), 8),
}


class StoredTensor:
    """The tensors of n segments in a safetensors file.

    The file contains one of: a tensor `name` [n, …]; a tensor `name` [m, …] with the concatenated rows of all segments
    and a tensor `rows` [n] with their numbers; or one tensor per segment, named by its number from 0. Raises UserError
    for any other file.
    """

    def __init__(self, path: Path, name: str) -> None:
        self.path, self.name = path, name
        self._stored = _opened(path, name)
        held = frozenset(self._stored.keys())
        self.apart = name not in held and held == frozenset(map(str, range(len(held)))) and bool(held)
        if not self.apart and (name not in held or not self._stored.get_slice(name).get_shape()):
            hint = f"It has: {', '.join(sorted(held)[:8]) or 'none'}."
            raise UserError(f"no tensor '{name}' with rows", where=str(path), hint=hint)
        self._bounds = self._read_bounds() if ROWS in held and name != ROWS and not self.apart else None
        self._count = len(held) if self.apart else self.shape(0)[0]
        if self._bounds is not None:
            self._count = len(self._bounds) - 1

    def __len__(self) -> int:
        return self._count

    @property
    def ragged(self) -> bool:
        """Whether segments may have different numbers of rows."""
        return self.apart or self._bounds is not None

    def dtype(self, place: int = 0) -> str:
        """The type of a segment's numbers, by safetensors' name: F32, I64, …"""
        return str(self._slice(place).get_dtype())

    def shape(self, place: int = 0) -> tuple[int, ...]:
        """The shape of the tensor that contains the segment: of the shared tensor, unless each segment has its own."""
        return tuple(self._slice(place).get_shape())

    def rows(self) -> np.ndarray:
        """The number of rows of each segment [n]; 1 if a segment is one row of a shared tensor of any shape."""
        if self._bounds is not None:
            return np.diff(self._bounds)
        if self.apart:
            return np.array([(*self.shape(place), 1)[0] for place in range(len(self))], dtype=np.int64)
        return np.ones(len(self), dtype=np.int64)

    def __getitem__(self, place: int) -> np.ndarray:
        if not 0 <= place < len(self):
            raise IndexError(place)
        if self._bounds is not None:
            row: np.ndarray = self._slice(0)[int(self._bounds[place]) : int(self._bounds[place + 1])]
        else:
            row = self._stored.get_tensor(str(place)) if self.apart else self._slice(0)[place]
        return row

    def __iter__(self) -> Iterator[np.ndarray]:
        return (self[place] for place in range(len(self)))

    def _slice(self, place: int) -> Any:
        return self._stored.get_slice(str(place) if self.apart else self.name)

    def _read_bounds(self) -> np.ndarray:
        counts, (held, *_) = self._stored.get_tensor(ROWS), self.shape(0)
        whole = counts.ndim == 1 and np.issubdtype(counts.dtype, np.integer) and (counts > 0).all()
        if not whole or counts.sum() != held:
            hint = f"'{ROWS}' [n] says how many rows of '{self.name}' [m, k] each example has: at least 1, m together."
            raise UserError(f"'{ROWS}' and '{self.name}' do not match", where=str(self.path), hint=hint)
        return np.concatenate([[0], np.cumsum(counts, dtype=np.int64)])


def row_count(path: Path, name: str) -> int:
    """The number of segments. Raises UserError if the file contains no such tensor."""
    return len(StoredTensor(path, name))


def write_rows(source: Path, name: str, rows: Sequence[int], out: Path) -> None:
    """Write the tensors of selected segments to a new file, in this order."""
    stored = StoredTensor(source, name)
    counts = stored.rows()[np.asarray(rows, dtype=np.int64)]
    if stored.ragged:
        held = (int(counts.sum()), *stored.shape(0)[1:])
        tensors = {name: (stored.dtype(), held), ROWS: ("I64", counts.shape)}
        parts: list[Iterable[np.ndarray]] = [(stored[row] for row in rows), [counts.astype(np.int64)]]
    else:
        tensors = {name: (stored.dtype(), (len(rows), *stored.shape()[1:]))}
        parts = [(stored[row] for row in rows)]
    with out.open("wb") as handle:
        handle.write(_header(tensors))
        for part in parts:
            handle.writelines(np.ascontiguousarray(values).tobytes() for values in part)


def _header(tensors: Mapping[str, tuple[str, tuple[int, ...]]]) -> bytes:
    """The header of a safetensors file with these tensors (type and shape by name), stored in this order."""
    described, end = {}, 0
    for name, (dtype, shape) in tensors.items():
        begin, end = end, end + int(np.prod(shape, dtype=np.int64)) * _BYTES[dtype]
        described[name] = {"dtype": dtype, "shape": list(shape), "data_offsets": [begin, end]}
    text = json.dumps(described, separators=(",", ":"), ensure_ascii=False).encode()
    text += b" " * (-len(text) % 8)
    return len(text).to_bytes(8, "little") + text


def _opened(path: Path, name: str) -> Any:
    try:
        return safe_open(path, framework="numpy")
    except (FileNotFoundError, IsADirectoryError):
        raise UserError("no such file", where=str(path), hint=f"It is to hold the tensor '{name}'.") from None
    except (SafetensorError, OSError) as error:
        raise UserError(f"no safetensors file: {error}", where=str(path)) from None
