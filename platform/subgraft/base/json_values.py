"""JSON that others have written, or damaged: whatever is wrong with it is a ValueError that says so."""

from __future__ import annotations

import json
import math
from dataclasses import fields
from pathlib import Path
from typing import Any, TypeVar

from pydantic import TypeAdapter, ValidationError

from subgraft.base.limits import NESTING

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
