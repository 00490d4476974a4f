"""Lines of plain and gzipped text files, streamed as UTF-8: segments, and triples of a knowledge graph."""

from __future__ import annotations

import gzip
import re
import stat
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from io import BufferedReader
from pathlib import Path
from typing import Any, TypeVar

from subgraft.base.errors import UserError
from subgraft.base.files import TO_A_FILE, require_path

Item = TypeVar("Item")
_GZIP_MAGIC = b"\x1f\x8b"
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"
# The first bytes of files that hold text, but not as lines, with what they are and what to do.
_UNPACK = "Unpack it: text is read from plain and gzipped files."
_SAVE_AS_TEXT = "Save its text as a plain file in UTF-8, one segment per line."
_OTHER_FORMATS: Mapping[bytes, tuple[str, str]] = {
    b"PAR1\x15": (
        "a Parquet file",
        "Read it with pandas.read_parquet, and write the column of text to a file, line by line.",
    ),
    b"PK\x03\x04": (
        "a zip archive, or a document of an office program (docx, xlsx, odt)",
        f"{_UNPACK} {_SAVE_AS_TEXT}",
    ),
    b"\xd0\xcf\x11\xe0": ("a document of an office program (doc, xls)", _SAVE_AS_TEXT),
    b"%PDF-": ("a PDF document", _SAVE_AS_TEXT),
    b"\xfd7zXZ\x00": ("an xz archive", _UNPACK),
    b"BZh91AY": ("a bzip2 archive", _UNPACK),
    b"\x28\xb5\x2f\xfd": ("a Zstandard archive", _UNPACK),
    b"7z\xbc\xaf\x27\x1c": ("a 7z archive", _UNPACK),
    b"\xff\xfe": ("text in UTF-16", "Convert the file to UTF-8: iconv -f UTF-16 -t UTF-8 FILE > NEW"),
    b"\xfe\xff": ("text in UTF-16", "Convert the file to UTF-8: iconv -f UTF-16 -t UTF-8 FILE > NEW"),
}
_XML = re.compile(rb"\s*(?:<\?xml\s|<!DOCTYPE\s|<(?:tmx|xliff)[\s>])", re.IGNORECASE)
_ROOT = re.compile(rb"<([A-Za-z][\w.:-]*)")
_FIRST_BYTES = 2048
# In bytes: longer than any file of questions in a single line, and short enough to fit into memory.
LONGEST_LINE = 256 * 1024**2
# Gzip compresses text to between a third and a tenth of its size. A file that expands to more than this many times its
# size, and to more than ALWAYS_ALLOWED bytes, is a decompression bomb. Every line counts as at least LINE_BYTES,
# because each takes time.
LARGEST_EXPANSION = 200
ALWAYS_ALLOWED = 8 * 1024**2
LINE_BYTES = 16
_pipes_read: set[tuple[int, int]] = set()  # by device and inode


def lines(path: Path) -> Iterator[str]:
    """The lines of a UTF-8 file, plain or gzipped (recognised by its first bytes, not its name), without line ends.

    Only "\\n" and "\\r\\n" end a line: U+2028, U+0085, vertical tabs and form feeds are characters of a segment. A byte
    order mark at the start is dropped.

    Raises:
        UserError: The file is missing, damaged, a decompression bomb or, by its first bytes, of a format without lines,
            such as XML; or, with the line number, it is not UTF-8 or a line is too long.
    """
    with _open_plain_or_gzipped(path) as handle:
        _require_lines(handle.peek(_FIRST_BYTES)[:_FIRST_BYTES], path)
        for number, raw in enumerate(_read_bounded(handle, path), 1):
            line = raw.removesuffix(b"\n").removesuffix(b"\r")
            if number == 1:
                line = line.removeprefix(_BYTE_ORDER_MARK)
            try:
                yield line.decode("utf-8")
            except UnicodeDecodeError as error:
                what = f"not UTF-8: byte 0x{line[error.start]:02x} at byte {error.start + 1} of the line"
                raise UserError(what, where=f"{path}:{number}", hint="Convert the file to UTF-8.") from None


def raw_lines(path: Path) -> Iterator[bytes]:
    """The bytes of a file of any format, plain or gzipped, line by line; the same limits as of `lines`."""
    with _open_plain_or_gzipped(path) as handle:
        yield from _read_bounded(handle, path)


def bounded_chunks(
    items: Iterable[Item], size: Callable[[Item], int], max_items: int, max_size: int
) -> Iterator[list[Item]]:
    """The items in lists of `max_items`, or of fewer as soon as their total size reaches `max_size`."""
    chunk, total = list[Item](), 0
    for item in items:
        chunk.append(item)
        total += size(item)
        if len(chunk) == max_items or total >= max_size:
            yield chunk
            chunk, total = [], 0
    if chunk:
        yield chunk


def has_byte_order_mark(path: Path) -> bool:
    """Whether the file begins with a byte order mark, which `lines` drops."""
    with _open_plain_or_gzipped(path) as handle:
        return handle.read(len(_BYTE_ORDER_MARK)) == _BYTE_ORDER_MARK


def count(path: Path) -> int:
    """The number of lines in the file; the same checks as `lines`."""
    return sum(1 for _ in lines(path))


def _read_bounded(handle: BufferedReader | gzip.GzipFile, path: Path) -> Iterator[bytes]:
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


def _require_lines(start: bytes, path: Path) -> None:
    """Raises UserError if a file that begins with these bytes contains no lines of text."""
    for magic, (what, hint) in _OTHER_FORMATS.items():
        if start.startswith(magic):
            raise UserError(f"this is {what}, and lines of text were expected", where=str(path), hint=hint)
    start = start.removeprefix(_BYTE_ORDER_MARK)
    if _XML.match(start):
        root = _ROOT.search(start)
        name = f" (<{root[1].decode('ascii')}>)" if root else ""
        hint = (
            "Write its segments to plain files, one per line; parallel texts to a file for each language. `fit "
            "--pairs` reads TMX and XLIFF. If the markup itself is the text, remove everything before the first "
            "element."
        )
        raise UserError(f"this is XML{name}, and lines of text were expected", where=str(path), hint=hint)


def _require_unread(path: Path) -> None:
    """Raises UserError for a pipe that was read before: it would be empty now, or wait for another writer."""
    status = path.stat()
    if stat.S_ISFIFO(status.st_mode):
        pipe = status.st_dev, status.st_ino
        if pipe in _pipes_read:
            raise UserError("a pipe can be read once, and this needs its text again", where=str(path), hint=TO_A_FILE)
        _pipes_read.add(pipe)


@contextmanager
def _open_plain_or_gzipped(path: Path) -> Iterator[BufferedReader | gzip.GzipFile]:
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


# Head, relation and tail.
Triple = tuple[str, str, str]


def read_triples(path: Path) -> list[Triple]:
    """Lines of head, relation and tail with tabs between them; equal lines count once.

    Raises UserError for a malformed line, with its number, and for a file with fewer than two entities.
    """
    triples = dict[Triple, None]()
    for number, line in enumerate(lines(path), 1):
        if not line.strip():
            continue
        cells = [cell.strip() for cell in line.split("\t")]
        if len(cells) != 3 or not all(cells):
            hint = "A line must have a head, a relation and a tail, separated by tabs."
            raise UserError("not a triple", where=f"{path}:{number}", hint=hint)
        triples[cells[0], cells[1], cells[2]] = None
    if not triples:
        raise UserError("no triples", where=str(path), hint="Write a head, a relation and a tail a line.")
    if len({name for head, _, tail in triples for name in (head, tail)}) < 2:
        hint = "A relation leads from one entity to another: add such triples."
        raise UserError("all triples are about one entity", where=str(path), hint=hint)
    return list(triples)


def parquet_rows(
    path: Path, columns: Callable[[Sequence[str]], Sequence[str]] = lambda names: names
) -> Iterator[dict[str, Any]]:
    """The rows of a Parquet file. columns: those to read, of all. Raises UserError if it cannot be read."""
    import pyarrow.lib
    import pyarrow.parquet

    try:
        with pyarrow.parquet.ParquetFile(path) as rows:
            for batch in rows.iter_batches(columns=list(columns(rows.schema_arrow.names))):
                yield from batch.to_pylist()
    except (OSError, pyarrow.lib.ArrowException) as error:
        raise UserError(f"not a readable Parquet file: {error}", where=str(path)) from None
