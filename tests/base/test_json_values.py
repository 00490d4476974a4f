"""JSON that others have written: whatever is wrong with it is a ValueError."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest

from subgraft.base import json_io
from subgraft.base.security.limits import MAX_NESTING


@dataclass(frozen=True, slots=True)
class Point:
    name: str
    at: tuple[int, float]
    tags: Mapping[str, str]


@pytest.mark.parametrize(
    "text",
    ["", "{", "[" * 100_000, '{"a":' * 100_000, "[" * (MAX_NESTING + 1) + "]" * (MAX_NESTING + 1), "9" * 4301, b"\xff"],
    ids=["empty", "torn", "lists", "objects", "just too deep", "digits", "no UTF-8"],
)
def test_what_cannot_be_read_is_a_value_error(text: str | bytes, tmp_path: Path) -> None:
    with pytest.raises(ValueError):
        json_io.parse(text)
    file = tmp_path / "found.json"
    file.write_bytes(text if isinstance(text, bytes) else text.encode())
    assert json_io.object_in(file) == {}


def test_what_is_just_not_too_deep_is_read() -> None:
    assert json_io.parse("[" * MAX_NESTING + "]" * MAX_NESTING)


def test_only_an_object_is_one() -> None:
    assert json_io.parse_object('{"a": 1}') == {"a": 1}
    with pytest.raises(ValueError, match="not a JSON object"):
        json_io.parse_object("[1]")


def test_a_dataclass_is_built_of_the_right_fields_only() -> None:
    fields = {"name": "a", "at": [1, 2.5], "tags": {"b": "c"}}
    assert json_io.build(Point, fields) == Point("a", (1, 2.5), {"b": "c"})
    for wrong in ({**fields, "at": ["x", 1]}, {**fields, "tags": [1]}, {**fields, "more": 1}, {"name": "a"}, [1], None):
        with pytest.raises(ValueError):
            json_io.build(Point, wrong)


def test_half_a_character_is_refused_and_whole_ones_are_not() -> None:
    for text in ('"\\ud83d\\ude00"', '"\\u00e4"', '"a\\\\ud800"'):
        json_io.require_characters(json_io.parse(text), text)
    text = '{"a": ["\\ud800"]}'
    with pytest.raises(ValueError, match=r"\\ud800 is half a character"):
        json_io.require_characters(json_io.parse(text), text)
