"""Read and write JSON: values, objects in files, and JSON lines, with limits on size and nesting."""

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
from subgraft.base.files import require_file
from subgraft.base.security.limits import JSON_BYTES, MAX_NESTING

T = TypeVar("T")
_NESTING_TYPES = frozenset({list, dict})
# Cached, because logs are read line by line.
_adapters: dict[type, TypeAdapter[Any]] = {}


def parse(text: str | bytes, *, finite: bool = False) -> Any:
    """Parse a JSON text.

    Args:
        text: the JSON text.
        finite: whether to refuse infinity and NaN, which Python would read.

    Raises:
        ValueError: for invalid JSON (JSONDecodeError, with the position) or UTF-8, numbers with thousands of digits,
            and values nested too deeply for recursive readers.
    """
    try:
        value = (
            json.loads(text, parse_float=_parse_finite, parse_constant=_parse_finite) if finite else json.loads(text)
        )
    except RecursionError:
        raise ValueError("nested too deeply") from None
    _require_shallow(value)
    return value


def parse_object(text: str | bytes) -> dict[str, Any]:
    """Parse a JSON object. Raises ValueError like `parse`, and for any other value."""
    value = parse(text)
    if not isinstance(value, dict):
        raise ValueError("not a JSON object with named fields")
    return value


def object_in(path: Path) -> dict[str, Any]:
    """The object in a file; empty if the file does not exist or cannot be read."""
    try:
        return parse_object(path.read_bytes())
    except (OSError, ValueError):
        return {}


def build(kind: type[T], value: Any) -> T:
    """Build a dataclass from an object. Raises ValueError if a field is missing, unknown or of the wrong type."""
    if not isinstance(value, dict):
        raise ValueError("not a JSON object with named fields")
    if unknown := value.keys() - {field.name for field in fields(kind)}:  # type: ignore[arg-type]
        raise ValueError(f"unknown fields {sorted(unknown)}")
    if kind not in _adapters:
        _adapters[kind] = TypeAdapter(kind)
    try:
        built: T = _adapters[kind].validate_python(value)
        return built
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        raise ValueError(f"{'.'.join(map(str, first['loc']))}: {first['msg']}") from None


def require_characters(value: Any, text: str) -> None:
    """Raise ValueError if a value contains a lone surrogate, which JSON can escape but UTF-8 cannot encode."""
    if "\\u" in text:
        try:
            json.dumps(value, ensure_ascii=False).encode()
        except UnicodeEncodeError as error:
            half = ord(error.object[error.start])
            raise ValueError(f"\\u{half:04x} is half a character, without its other half") from None


def _parse_finite(text: str) -> float:
    number = float(text)
    if not math.isfinite(number):
        raise ValueError(f"{text:.20} is not a finite number")
    return number


def _require_shallow(value: Any) -> None:
    level, depth = [value] if type(value) in _NESTING_TYPES else [], 0
    while level:
        depth += 1
        if depth > MAX_NESTING:
            raise ValueError("nested too deeply")
        inside = (outer.values() if isinstance(outer, dict) else outer for outer in level)
        level = [inner for values in inside for inner in values if type(inner) in _NESTING_TYPES]


# Users' files are read strictly, so that later code need not check the values again.


def read_object(path: Path) -> dict[str, Any]:
    """The object in a file. Raises UserError like `read_text` and `parse_user_object`."""
    return parse_user_object(read_text(path), str(path))


def read_text(path: Path) -> str:
    """A file's text. Raises UserError with its path if it is not UTF-8, and like `read_bytes`."""
    try:
        return read_bytes(path).decode("utf-8")
    except UnicodeDecodeError as error:
        raise UserError(f"not UTF-8 at byte {error.start + 1}", where=str(path)) from None


def read_bytes(path: Path) -> bytes:
    """A file's bytes. Raises UserError with its path if it is missing, not a regular file, or too large."""
    if require_file(path).stat().st_size > JSON_BYTES.value:
        raise UserError("the file is too large", where=str(path), hint=JSON_BYTES.hint)
    return path.read_bytes()


def parse_user_object(text: str, where: str) -> dict[str, Any]:
    """Parse a JSON object. Raises UserError for anything else, deep nesting, infinity, NaN and lone surrogates."""
    try:
        value = parse(text, finite=True)
        require_characters(value, text)
    except ValueError as error:
        raise UserError(f"not JSON that can be read: {error}", where=where) from None
    if not isinstance(value, dict):
        raise UserError("not a JSON object with named fields", where=where)
    return value


# JSON lines: users' files are read strictly; logs leniently, because a killed process may leave a truncated line.


def objects(lines: Iterable[str], path: Path) -> Iterator[dict[str, Any]]:
    """The object on every line of a user's file.

    Args:
        lines: the lines of the file, read by the caller within its limits.
        path: the file, for error messages.

    Raises:
        UserError: with file and line, for a line that is not a JSON object.
    """
    for number, line in enumerate(lines, 1):
        where = f"{path}:{number}"
        try:
            value = parse(line)
            require_characters(value, line)
        except json.JSONDecodeError as error:
            raise UserError(f"not JSON: {error.msg}", where=where, hint="One JSON object a line is expected.") from None
        except ValueError as error:
            raise UserError(f"not JSON that can be read: {error}", where=where) from None
        if not isinstance(value, dict):
            raise UserError("not a JSON object with named fields", where=where)
        yield value


def read_log(path: Path, offset: int = 0) -> Iterator[tuple[dict[str, Any], int]]:
    """The objects in a log's complete lines after a byte offset, each with the offset of the next line.

    Lines truncated by a kill or written by another program are skipped; an incomplete last line is left for the next
    call. The log need not exist.
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


def append(path: Path, fields: Mapping[str, Any], *, durable: bool = False) -> None:
    """Append a line to a log, which several processes may do at once. An incomplete last line is ended first.

    durable: whether to flush the line to the device before returning.
    """
    line = json.dumps(fields).encode() + b"\n"
    with path.open("a+b") as stream:
        if stream.tell():
            stream.seek(-1, os.SEEK_END)
            if stream.read(1) != b"\n":
                line = b"\n" + line
        stream.write(line)
        if durable:
            stream.flush()
            os.fsync(stream.fileno())
