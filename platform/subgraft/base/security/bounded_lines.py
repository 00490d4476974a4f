"""Lines of files of any size from elsewhere, plain or gzipped: endless lines and decompression bombs are refused."""

from __future__ import annotations

import gzip
import stat
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from io import BufferedReader
from pathlib import Path

from subgraft.base.errors import UserError
from subgraft.base.files import TO_A_FILE, require_path

_GZIP_MAGIC = b"\x1f\x8b"
# In bytes: longer than any file of questions in a single line, and short enough to fit into memory.
LONGEST_LINE = 256 * 1024**2
# Gzip compresses text to between a third and a tenth of its size. A file that expands to more than this many times its
# size, and to more than ALWAYS_ALLOWED bytes, is a decompression bomb. Every line counts as at least LINE_BYTES,
# because each takes time.
LARGEST_EXPANSION = 200
ALWAYS_ALLOWED = 8 * 1024**2
LINE_BYTES = 16
_pipes_read: set[tuple[int, int]] = set()  # by device and inode


def bounded_lines(handle: BufferedReader | gzip.GzipFile, path: Path) -> Iterator[bytes]:
    """Raw lines with their ends. Raises UserError beyond the limits on lines and expansion."""
    zipped = isinstance(handle, gzip.GzipFile)
    max_bytes, expanded = max(ALWAYS_ALLOWED, LARGEST_EXPANSION * path.stat().st_size), 0
    number = 0
    while raw := handle.readline(LONGEST_LINE + 1):
        number += 1
        expanded += max(len(raw), LINE_BYTES)
        if len(raw) > LONGEST_LINE:
            raise UserError(f"a line of more than {LONGEST_LINE:,} bytes", where=f"{path}:{number}")
        if zipped and expanded > max_bytes:
            what = f"expands to more than {LARGEST_EXPANSION} times its size, which no text does"
            hint = f"The limit applies beyond {ALWAYS_ALLOWED:,} bytes of content. If the file is text, unzip it."
            raise UserError(what, where=str(path), hint=hint)
        yield raw


def _require_unread(path: Path) -> None:
    """Raises UserError for a pipe that was read before: it would be empty now, or wait for another writer."""
    status = path.stat()
    if stat.S_ISFIFO(status.st_mode):
        pipe = status.st_dev, status.st_ino
        if pipe in _pipes_read:
            raise UserError("a pipe can be read once, and this needs its text again", where=str(path), hint=TO_A_FILE)
        _pipes_read.add(pipe)


@contextmanager
def opened(path: Path) -> Iterator[BufferedReader | gzip.GzipFile]:
    """A plain file, or by its first bytes a gzipped one; UserError if it is missing, damaged, or a pipe read before."""
    require_path(path)
    try:
        _require_unread(path)
        with path.open("rb") as plain:
            zipped = plain.peek(2)[:2] == _GZIP_MAGIC  # a pipe cannot go back
            yield gzip.GzipFile(fileobj=plain) if zipped else plain
    except FileNotFoundError:
        raise UserError("no such file", where=str(path)) from None
    except IsADirectoryError:
        raise UserError("a text file was expected, this is a folder", where=str(path)) from None
    except PermissionError:
        raise UserError("the file may not be read", where=str(path)) from None
    except (EOFError, gzip.BadGzipFile, zlib.error) as error:
        raise UserError(f"damaged gzip file: {error}", where=str(path)) from None
