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
        self._stored = _open_tensors(path, name)
        names = frozenset(self._stored.keys())
        self.separate = name not in names and names == frozenset(map(str, range(len(names)))) and bool(names)
        if not self.separate and (name not in names or not self._stored.get_slice(name).get_shape()):
            hint = f"It has: {', '.join(sorted(names)[:8]) or 'none'}."
            raise UserError(f"no tensor '{name}' with rows", where=str(path), hint=hint)
        self._bounds = self._read_bounds() if ROWS in names and name != ROWS and not self.separate else None
        self._count = len(names) if self.separate else self.shape(0)[0]
        if self._bounds is not None:
            self._count = len(self._bounds) - 1

    def __len__(self) -> int:
        return self._count

    @property
    def ragged(self) -> bool:
        """Whether segments may have different numbers of rows."""
        return self.separate or self._bounds is not None

    def dtype(self, index: int = 0) -> str:
        """The type of a segment's numbers, by safetensors' name: F32, I64, …"""
        return str(self._slice(index).get_dtype())

    def shape(self, index: int = 0) -> tuple[int, ...]:
        """The shape of the tensor that contains the segment: its own tensor, or the tensor that all segments share."""
        return tuple(self._slice(index).get_shape())

    def rows(self) -> np.ndarray:
        """The number of rows of each segment [n]; 1 if a segment is one row of a shared tensor of any shape."""
        if self._bounds is not None:
            return np.diff(self._bounds)
        if self.separate:
            return np.array([(*self.shape(index), 1)[0] for index in range(len(self))], dtype=np.int64)
        return np.ones(len(self), dtype=np.int64)

    def __getitem__(self, index: int) -> np.ndarray:
        if not 0 <= index < len(self):
            raise IndexError(index)
        if self._bounds is not None:
            row: np.ndarray = self._slice(0)[int(self._bounds[index]) : int(self._bounds[index + 1])]
        else:
            row = self._stored.get_tensor(str(index)) if self.separate else self._slice(0)[index]
        return row

    def __iter__(self) -> Iterator[np.ndarray]:
        return (self[index] for index in range(len(self)))

    def _slice(self, index: int) -> Any:
        return self._stored.get_slice(str(index) if self.separate else self.name)

    def _read_bounds(self) -> np.ndarray:
        counts, (total, *_) = self._stored.get_tensor(ROWS), self.shape(0)
        valid = counts.ndim == 1 and np.issubdtype(counts.dtype, np.integer) and (counts > 0).all()
        if not valid or counts.sum() != total:
            hint = (
                f"'{ROWS}' [n] must contain the number of rows of '{self.name}' [m, k] of each example: 1 or more each."
            )
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
        shape = (int(counts.sum()), *stored.shape(0)[1:])
        tensors = {name: (stored.dtype(), shape), ROWS: ("I64", counts.shape)}
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
    entries, end = {}, 0
    for name, (dtype, shape) in tensors.items():
        start, end = end, end + int(np.prod(shape, dtype=np.int64)) * _BYTES[dtype]
        entries[name] = {"dtype": dtype, "shape": list(shape), "data_offsets": [start, end]}
    text = json.dumps(entries, separators=(",", ":"), ensure_ascii=False).encode()
    text += b" " * (-len(text) % 8)
    return len(text).to_bytes(8, "little") + text


def _open_tensors(path: Path, name: str) -> Any:
    try:
        return safe_open(path, framework="numpy")
    except (FileNotFoundError, IsADirectoryError):
        raise UserError("no such file", where=str(path), hint=f"It must contain the tensor '{name}'.") from None
    except (SafetensorError, OSError) as error:
        raise UserError(f"not a safetensors file: {error}", where=str(path)) from None
