"""JSON objects out of files that somebody else wrote: the one reader, which refuses what no later code should meet."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from subgraft.base import json_values
from subgraft.base.errors import UserError
from subgraft.base.limits import JSON_BYTES


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
        found = json_values.parse(text, finite=True)
        json_values.require_characters(found, text)
    except ValueError as error:
        raise UserError(f"not JSON that can be read: {error}", where=where) from None
    if not isinstance(found, dict):
        raise UserError("not a JSON object with named fields", where=where)
    return found
