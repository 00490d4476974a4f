"""Escape control characters before printing: names of files and tokens can contain terminal commands."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import IO, NewType, TextIO

# Text that `printable` has escaped.
Printable = NewType("Printable", str)

_STREAMS = {"<stdout>": "standard output", "<stderr>": "standard error"}
# Control characters other than newline and tab, changes of the writing direction, Unicode's line separators, and
# lone surrogates: bytes of a name that are not UTF-8.
_UNSAFE = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\u2028\u2029\ud800-\udfff]")


def printable(text: str) -> Printable:
    """The text with unsafe characters escaped as in Python's strings."""
    return Printable(_UNSAFE.sub(_escape, text))


def say(text: str = "", *, to: TextIO | None = None) -> None:
    """Print to standard output, or to a stream."""
    stream = to or sys.stdout
    with name_stream_in_errors(stream):
        print(printable(text), file=stream, flush=True)


@contextmanager
def name_stream_in_errors(stream: IO[str]) -> Iterator[None]:
    """Add the stream's name to errors of writing to it, such as a full disk; Python leaves the file name empty."""
    try:
        yield
    except OSError as error:
        if error.filename is None and error.errno is not None:
            error.filename = _STREAMS.get(getattr(stream, "name", ""), "standard output")
        raise


def write(line: str) -> None:
    """Print the result of a command: escaped to a terminal, unchanged to a file or pipe."""
    with name_stream_in_errors(sys.stdout):
        print(printable(line) if sys.stdout.isatty() else line)


def _escape(match: re.Match[str]) -> str:
    code = ord(match[0])
    if 0xDC80 <= code <= 0xDCFF:  # how Python represents a byte that it cannot decode
        code -= 0xDC00
    return f"\\x{code:02x}" if code < 256 else f"\\u{code:04x}"
