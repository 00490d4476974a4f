"""The option `--json`: one JSON object on standard output in place of a table, with stable names (docs/guide.md)."""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Iterable, Mapping
from dataclasses import fields, is_dataclass
from datetime import datetime
from enum import Enum
from pathlib import Path
from typing import Any, Protocol


class Options(Protocol):
    """A command's parser, or a group of its options."""

    def add_argument(self, *names: Any, **settings: Any) -> Any: ...


def add_json(command: Options) -> None:
    command.add_argument("--json", action="store_true", help="print JSON in place of a table")


def print_json(**entries: Any) -> None:
    """Print an object. Dataclasses become objects, NaN and infinity null, times ISO 8601."""
    sys.stdout.write(json.dumps(_plain(entries), indent=1, ensure_ascii=False, allow_nan=False) + "\n")


def _plain(value: Any) -> Any:
    if is_dataclass(value) and not isinstance(value, type):
        return {field.name: _plain(getattr(value, field.name)) for field in fields(value)}
    if isinstance(value, Mapping):
        return {str(key): _plain(each) for key, each in value.items()}
    if isinstance(value, float) and not math.isfinite(value):
        return None
    if isinstance(value, Enum):
        return _plain(value.value)
    if isinstance(value, datetime):
        return value.isoformat(timespec="seconds")
    if isinstance(value, Path):
        return str(value)
    if value is None or isinstance(value, str | int | float | bool):
        return value
    if isinstance(value, Iterable):
        return [_plain(each) for each in value]
    raise TypeError(f"no JSON form for {type(value).__name__}")
