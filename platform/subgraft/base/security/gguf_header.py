# mypy: allow-untyped-calls
"""The header of a GGUF file, checked before any library sees the file.

Counts, lengths and nesting have limits, and every tensor must lie within the file. Nothing in a GGUF is code but a
template of conversations, which is treated like any model's.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from subgraft.base.errors import UserError
from subgraft.base.security.limits import JSON_BYTES, PIECES

MAGIC, VERSIONS = b"GGUF", (2, 3)
# Published files have at most some hundred entries and a few thousand tensors; merges are three times the pieces.
_MAX_ENTRIES, _MAX_TENSORS, _MAX_NAME, _MERGES_OF_PIECE = 1 << 14, 1 << 17, 1 << 10, 4
_MAX_DIMENSIONS, _ALIGNMENT = 4, 32
_TEXT, _ARRAY = 8, 9
_NUMBERS = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q", 11: "q", 12: "d"}


@dataclass(frozen=True)
class StoredTensor:
    """Where a tensor is in the file. shape: as in transformers. kind: the number of its type."""

    shape: tuple[int, ...]
    kind: int
    start: int
    size: int


@dataclass(frozen=True)
class GgufFile:
    """The contents of a file, without the numbers of its tensors."""

    path: Path
    entries: Mapping[str, Any]
    tensors: Mapping[str, StoredTensor]

    def stored(self, name: str) -> np.ndarray[Any, np.dtype[np.uint8]]:
        """The bytes of a tensor, in the file."""
        tensor = self.tensors[name]
        return np.memmap(self.path, np.uint8, "r", tensor.start, (tensor.size,))

    def numbers(self, name: str) -> np.ndarray[Any, np.dtype[np.float32]]:
        """A tensor in fp32."""
        import gguf

        stored = self.tensors[name]
        kind = gguf.GGMLQuantizationType(stored.kind)
        rows = self.stored(name).reshape(*stored.shape[:-1], -1)
        try:
            values = gguf.quants.dequantize(rows, kind)
        except NotImplementedError as error:
            raise UserError(f"{name} is of the type {kind.name}, which cannot be read", where=str(self.path)) from error
        return np.array(values, np.float32).reshape(stored.shape)


class _Reader:
    """Reads a header; refuses what is longer than the file or the limits."""

    def __init__(self, file: BinaryIO, path: Path) -> None:
        self._file, self._path = file, path
        self.size = path.stat().st_size

    def refused(self, what: str, hint: str = "") -> UserError:
        return UserError(f"not a sound GGUF file: {what}", where=str(self._path), hint=hint)

    def raw(self, count: int) -> bytes:
        if count > self.size - self._file.tell():
            raise self.refused("it is cut off")
        return self._file.read(count)

    def number(self, form: str) -> Any:
        return struct.unpack(f"<{form}", self.raw(struct.calcsize(f"<{form}")))[0]

    def text(self, limit: int) -> str:
        length = self.number("Q")
        if length > limit:
            raise self.refused(f"a text of {length:,} bytes")
        try:
            return self.raw(length).decode("utf-8")
        except UnicodeDecodeError as error:
            raise self.refused("a text that is not UTF-8") from error

    def value(self, kind: int) -> Any:
        if kind in _NUMBERS:
            return self.number(_NUMBERS[kind])
        if kind == _TEXT:
            return self.text(JSON_BYTES.value)
        if kind != _ARRAY:
            raise self.refused(f"a value of the unknown type {kind}")
        of, count = self.number("I"), self.number("Q")
        if count > _MERGES_OF_PIECE * PIECES.value:
            raise self.refused(f"a list of {count:,} values", PIECES.hint)
        if of in _NUMBERS:
            form = _NUMBERS[of]
            return list(struct.unpack(f"<{count}{form}", self.raw(count * struct.calcsize(f"<{form}"))))
        if of != _TEXT:
            raise self.refused("lists of lists")
        return [self.text(_MAX_NAME << 6) for _ in range(count)]

    def position(self) -> int:
        return self._file.tell()


def is_gguf(path: Path | str) -> bool:
    """Whether a path is a file that begins like a GGUF; False for what no file can be called."""
    path = Path(path)
    with suppress(OSError):
        if path.is_file():
            with path.open("rb") as file:
                return file.read(len(MAGIC)) == MAGIC
    return False


def read_gguf(path: Path) -> GgufFile:
    """Read and check a file's header. Raises UserError for what is not a sound GGUF within the limits."""
    if not path.is_file():
        raise UserError("no such file", where=str(path), hint="Give a GGUF file.")
    with path.open("rb") as file:
        reader = _Reader(file, path)
        if reader.raw(min(len(MAGIC), reader.size)) != MAGIC:
            raise reader.refused("it does not begin with GGUF")
        version, tensors, entries = reader.number("I"), reader.number("Q"), reader.number("Q")
        if version not in VERSIONS:
            raise reader.refused(f"version {version}; {VERSIONS[0]} and {VERSIONS[1]} are supported")
        if tensors > _MAX_TENSORS or entries > _MAX_ENTRIES:
            raise reader.refused(f"{tensors:,} tensors and {entries:,} entries")
        described: dict[str, Any] = {}
        for _ in range(entries):
            key = reader.text(_MAX_NAME)
            if key in described:
                raise reader.refused(f"{key!r:.60} is there twice")
            described[key] = reader.value(reader.number("I"))
        if described.get("split.count", 0) not in (0, 1):
            hint = "Join its parts: llama.cpp's `llama-gguf-split --merge FIRST OUT`."
            raise UserError("one part of a model in several files", where=str(path), hint=hint)
        return GgufFile(path, described, _tensors(reader, tensors, described.get("general.alignment", _ALIGNMENT)))


def _tensors(reader: _Reader, count: int, alignment: Any) -> dict[str, StoredTensor]:
    import gguf

    if not isinstance(alignment, int) or not 0 < alignment <= 1 << 16:
        raise reader.refused(f"an alignment of {alignment!r:.20}")
    listed: list[tuple[str, tuple[int, ...], int, int]] = []
    for _ in range(count):
        name, dimensions = reader.text(_MAX_NAME), reader.number("I")
        if not 0 < dimensions <= _MAX_DIMENSIONS:
            raise reader.refused(f"{name!r:.60} has {dimensions:,} dimensions")
        shape = tuple(reader.number("Q") for _ in range(dimensions))[::-1]
        listed.append((name, shape, reader.number("I"), reader.number("Q")))
    first = -(-reader.position() // alignment) * alignment
    known = {int(kind): sizes for kind, sizes in gguf.GGML_QUANT_SIZES.items()}
    tensors: dict[str, StoredTensor] = {}
    for name, shape, kind, offset in listed:
        if kind not in known:
            raise reader.refused(f"{name!r:.60} is of the unknown type {kind}")
        block, size = known[kind]
        stored = math.prod(shape) // block * size
        if name in tensors or shape[-1] % block or not stored or first + offset + stored > reader.size:
            raise reader.refused(f"the tensor {name!r:.60} is outside of the file, or is there twice")
        tensors[name] = StoredTensor(shape, kind, first + offset, stored)
    return tensors
