"""JSON lines, one object a line: files of users are read strictly, logs that a kill may have torn with forbearance."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from subgraft.base import json_values
from subgraft.base.errors import UserError


def objects(lines: Iterable[str], path: Path) -> Iterator[dict[str, Any]]:
    """The object on every line of a user's file, whose lines the caller reads within its bounds.

    Raises UserError naming file and line for a line that is no JSON object.
    """
    for number, line in enumerate(lines, 1):
        where = f"{path}:{number}"
        try:
            found = json_values.parse(line)
            json_values.require_characters(found, line)
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
                yield json_values.parse_object(line), offset
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
