"""JSON of users and of our own: values, objects in files, and JSON lines, with limits on size and nesting."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import fields
from pathlib import Path
from typing import Any, TypeVar

from pydantic import TypeAdapter, ValidationError

from subgraft.base.errors import UserError
from subgraft.base.limits import JSON_BYTES, NESTING

T = TypeVar("T")
_NESTING_TYPES = frozenset({list, dict})
# Each is worth keeping: logs are read line by line.
_adapters: dict[type, TypeAdapter[Any]] = {}


def parse(text: str | bytes, *, finite: bool = False) -> Any:
    """The value that a text holds. finite: it has neither infinities nor NaN, which Python would read.

    Raises ValueError for what is not JSON (JSONDecodeError, with the place) or not UTF-8, for a number of thousands of
    digits, and for values nested deeper than anybody means: whoever reads them calls itself for each.
    """
    try:
        found = json.loads(text, parse_float=_finite, parse_constant=_finite) if finite else json.loads(text)
    except RecursionError:
        raise ValueError("nested too deeply") from None
    _require_shallow(found)
    return found


def parse_object(text: str | bytes) -> dict[str, Any]:
    """The object that a text holds. Raises ValueError as `parse` does, and for another value."""
    found = parse(text)
    if not isinstance(found, dict):
        raise ValueError("not a JSON object with named fields")
    return found


def object_in(path: Path) -> dict[str, Any]:
    """The object in a file; empty where there is no such file, or none that can be read."""
    try:
        return parse_object(path.read_bytes())
    except (OSError, ValueError):
        return {}


def build(kind: type[T], found: Any) -> T:
    """A dataclass from an object of its fields. Raises ValueError where one is missing, unknown or of another type."""
    if not isinstance(found, dict):
        raise ValueError("not a JSON object with named fields")
    if unknown := found.keys() - {field.name for field in fields(kind)}:  # type: ignore[arg-type]
        raise ValueError(f"unknown fields {sorted(unknown)}")
    if kind not in _adapters:
        _adapters[kind] = TypeAdapter(kind)
    try:
        built: T = _adapters[kind].validate_python(found)
        return built
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        raise ValueError(f"{'.'.join(map(str, first['loc']))}: {first['msg']}") from None


def require_characters(found: Any, text: str) -> None:
    """Raises ValueError where a value has half a character, which JSON can escape and no file of text can hold."""
    if "\\u" in text:
        try:
            json.dumps(found, ensure_ascii=False).encode()
        except UnicodeEncodeError as error:
            half = ord(error.object[error.start])
            raise ValueError(f"\\u{half:04x} is half a character, without its other half") from None


def _finite(written: str) -> float:
    number = float(written)
    if not math.isfinite(number):
        raise ValueError(f"{written:.20} is no finite number")
    return number


def _require_shallow(found: Any) -> None:
    level, depth = [found] if type(found) in _NESTING_TYPES else [], 0
    while level:
        depth += 1
        if depth > NESTING:
            raise ValueError("nested too deeply")
        inside = (outer.values() if isinstance(outer, dict) else outer for outer in level)
        level = [inner for values in inside for inner in values if type(inner) in _NESTING_TYPES]


# JSON objects out of files that somebody else wrote: the one reader, which refuses what no later code should meet.


def read_object(path: Path) -> dict[str, Any]:
    """The object in a file. Raises UserError naming it where there is none, and as `parse_user_object` does."""
    return parse_user_object(read_text(path), str(path))


def read_text(path: Path) -> str:
    """A file's text. Raises UserError naming it where it is not UTF-8, and as `read_bytes` does."""
    try:
        return read_bytes(path).decode("utf-8")
    except UnicodeDecodeError as error:
        raise UserError(f"not UTF-8 at byte {error.start + 1}", where=str(path)) from None


def read_bytes(path: Path) -> bytes:
    """A file's bytes. Raises UserError naming it where it is absent, no plain file, or too large."""
    if not path.is_file():
        raise UserError("no such file", where=str(path))
    if path.stat().st_size > JSON_BYTES.value:
        raise UserError("the file is too large", where=str(path), hint=JSON_BYTES.hint)
    return path.read_bytes()


def parse_user_object(text: str, where: str) -> dict[str, Any]:
    """The object. Raises UserError for what is none, nests too deeply, or holds infinities or halves of characters."""
    try:
        found = parse(text, finite=True)
        require_characters(found, text)
    except ValueError as error:
        raise UserError(f"not JSON that can be read: {error}", where=where) from None
    if not isinstance(found, dict):
        raise UserError("not a JSON object with named fields", where=where)
    return found


# JSON lines, one object a line: files of users are read strictly, logs that a kill may have torn with forbearance.


def objects(lines: Iterable[str], path: Path) -> Iterator[dict[str, Any]]:
    """The object on every line of a user's file, whose lines the caller reads within its bounds.

    Raises UserError naming file and line for a line that is no JSON object.
    """
    for number, line in enumerate(lines, 1):
        where = f"{path}:{number}"
        try:
            found = parse(line)
            require_characters(found, line)
        except json.JSONDecodeError as error:
            raise UserError(f"not JSON: {error.msg}", where=where, hint="One JSON object a line is expected.") from None
        except ValueError as error:
            raise UserError(f"not JSON that can be read: {error}", where=where) from None
        if not isinstance(found, dict):
            raise UserError("not a JSON object with named fields", where=where)
        yield found


def read_log(path: Path, offset: int = 0) -> Iterator[tuple[dict[str, Any], int]]:
    """The objects in a log's whole lines after a byte offset, each with the offset behind it.

    What a kill tore, or another program wrote, is passed over; a last line without its end is left for later. The log
    need not exist.
    """
    try:
        with path.open("rb") as stream:
            stream.seek(offset)
            content = stream.read()
    except FileNotFoundError:
        return
    for line in content.splitlines(keepends=True):
        offset += len(line)
        if line.endswith(b"\n"):
            try:
                yield parse_object(line), offset
            except ValueError:
                continue


def append(path: Path, fields: Mapping[str, Any], *, lasting: bool = False) -> None:
    """Add a line to a log, after ending one that was torn; several processes may do so at once.

    lasting: it is on the device when this returns.
    """
    line = json.dumps(fields).encode() + b"\n"
    with path.open("a+b") as stream:
        if stream.tell():
            stream.seek(-1, os.SEEK_END)
            if stream.read(1) != b"\n":
                line = b"\n" + line
        stream.write(line)
        if lasting:
            stream.flush()
            os.fsync(stream.fileno())
