"""Lines of plain and gzipped text files, streamed as UTF-8; triples of a knowledge graph; rows of Parquet and Arrow."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

from subgraft.base.errors import UserError
from subgraft.base.security.bounded_lines import bounded_lines, opened

Item = TypeVar("Item")
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
_JSON_LINES = re.compile(r"\.(jsonl|ndjson)(\.gz)?$", re.IGNORECASE)
_ARROW_FILE = b"ARROW1"  # of the file form; streams have no such mark


def lines(path: Path) -> Iterator[str]:
    """The lines of a UTF-8 file, plain or gzipped (recognised by its first bytes, not its name), without line ends.

    Only "\\n" and "\\r\\n" end a line: U+2028, U+0085, vertical tabs and form feeds are characters of a segment. A byte
    order mark at the start is dropped.

    Raises:
        UserError: The file is missing, damaged, a decompression bomb or, by its first bytes, of a format without lines
            of text, such as XML or JSON lines; or, with the line number, it is not UTF-8 or a line is too long.
    """
    return _lines(path, of_text=True)


def json_lines(path: Path) -> Iterator[str]:
    """The lines of a file that may have a JSON value in each; otherwise as `lines`."""
    return _lines(path, of_text=False)


def _lines(path: Path, *, of_text: bool) -> Iterator[str]:
    with opened(path) as handle:
        start = handle.peek(_FIRST_BYTES)[:_FIRST_BYTES]
        _require_lines(start, path)
        if of_text and _JSON_LINES.search(path.name) and start.removeprefix(_BYTE_ORDER_MARK).lstrip().startswith(b"{"):
            hint = f"Write the texts of one field to a file, one per line: jq -r .text {path.name} > NEW."
            raise UserError("these are JSON lines, and lines of text were expected", where=str(path), hint=hint)
        for number, raw in enumerate(bounded_lines(handle, path), 1):
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
    with opened(path) as handle:
        yield from bounded_lines(handle, path)


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
    with opened(path) as handle:
        return handle.read(len(_BYTE_ORDER_MARK)) == _BYTE_ORDER_MARK


def count(path: Path) -> int:
    """The number of lines in the file; the same checks as `lines`."""
    return sum(1 for _ in lines(path))


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
    path: Path, columns: Callable[[Sequence[str]], Sequence[str]] = lambda names: names, *, with_bytes: bool = True
) -> Iterator[dict[str, Any]]:
    """The rows of a Parquet file. Raises UserError if it cannot be read.

    columns: those to read, of all.  with_bytes: whether columns of bytes are among them.
    """
    import pyarrow.parquet

    with _readable_table(path, "Parquet"), pyarrow.parquet.ParquetFile(path) as rows:
        names = _column_names(rows.schema_arrow, with_bytes=with_bytes)
        for batch in rows.iter_batches(columns=list(columns(names))):
            yield from batch.to_pylist()


# Rows of an Arrow file that are Python objects at once.
_ARROW_ROWS = 1000


def arrow_rows(
    path: Path, columns: Callable[[Sequence[str]], Sequence[str]] = lambda names: names, *, with_bytes: bool = True
) -> Iterator[dict[str, Any]]:
    """The rows of an Arrow file, in its stream or its file form; arguments and errors as of `parquet_rows`."""
    with _readable_table(path, "Arrow"), _arrow_batches(path) as (schema, batches):
        if len(set(schema.names)) < len(schema.names):
            raise UserError("two columns have one name", where=str(path))
        selected = list(columns(_column_names(schema, with_bytes=with_bytes)))
        for batch in batches:
            batch.validate(full=True)  # offsets of a damaged file would lead out of it
            for start in range(0, len(batch), _ARROW_ROWS):
                yield from batch.slice(start, _ARROW_ROWS).select(selected).to_pylist()


def table_metadata(path: Path) -> Mapping[bytes, bytes]:
    """What the writer of a Parquet or Arrow file has noted of its columns. Raises UserError if it cannot be read."""
    import pyarrow.parquet

    if path.suffix.lower() == ".parquet":
        with _readable_table(path, "Parquet"):
            return pyarrow.parquet.read_schema(path).metadata or {}
    with _readable_table(path, "Arrow"), _arrow_batches(path) as (schema, _):
        return schema.metadata or {}


@contextmanager
def _arrow_batches(path: Path) -> Iterator[tuple[Any, Iterable[Any]]]:
    """The schema and the record batches of an Arrow file."""
    import pyarrow
    import pyarrow.ipc

    with pyarrow.memory_map(str(path)) as source:
        if source.read(len(_ARROW_FILE)) == _ARROW_FILE:
            with pyarrow.ipc.open_file(source) as file:
                yield file.schema, (file.get_batch(index) for index in range(file.num_record_batches))
            return
        source.seek(0)
        with pyarrow.ipc.open_stream(source) as stream:
            yield stream.schema, stream


def _column_names(schema: Any, *, with_bytes: bool) -> list[str]:
    return [field.name for field in schema if with_bytes or "binary" not in str(field.type)]


@contextmanager
def _readable_table(path: Path, form: str) -> Iterator[None]:
    import pyarrow.lib

    try:
        yield
    except (OSError, UnicodeDecodeError, pyarrow.lib.ArrowException) as error:
        raise UserError(f"not a readable {form} file: {error}", where=str(path)) from None
