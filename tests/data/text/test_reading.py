"""Lines of text files: what ends one, and what is refused."""

from __future__ import annotations

import bz2
import gzip
import lzma
import os
import random
import threading
from pathlib import Path

import pytest

from subgraft.base.errors import UserError
from subgraft.base.files import file_digest
from subgraft.base.security import bounded_lines
from subgraft.data.text import reading


def test_only_newlines_end_a_line(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    text = "one\r\ntwo\u2028still\x0btwo\x0cand\x85so on\rhere\n\nlast"
    path.write_bytes(b"\xef\xbb\xbf" + text.encode())
    expected = ["one", "two\u2028still\x0btwo\x0cand\x85so on\rhere", "", "last"]
    assert list(reading.lines(path)) == expected
    assert reading.count(path) == 4


@pytest.mark.parametrize("zipped", [False, True])
def test_a_pipe_is_read_once(zipped: bool, tmp_path: Path) -> None:
    """As of `--text <(command)`."""
    content = gzip.compress(b"one\ntwo\n") if zipped else b"one\ntwo\n"
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    writer = threading.Thread(target=pipe.write_bytes, args=(content,))
    writer.start()
    assert list(reading.lines(pipe)) == ["one", "two"]
    writer.join()
    with pytest.raises(UserError, match="a pipe can be read once"):
        reading.count(pipe)
    with pytest.raises(UserError, match="this is a pipe"):
        file_digest(pipe)


def test_gzip_is_recognised_by_its_bytes(tmp_path: Path) -> None:
    (tmp_path / "zipped.txt").write_bytes(gzip.compress("ä\nb\n".encode()))
    (tmp_path / "plain.gz").write_text("c\n", encoding="utf-8")
    assert list(reading.lines(tmp_path / "zipped.txt")) == ["ä", "b"]
    assert list(reading.lines(tmp_path / "plain.gz")) == ["c"]


@pytest.mark.parametrize("compress", [False, True])
def test_broken_utf8_names_file_line_and_byte(tmp_path: Path, compress: bool) -> None:
    raw = b"good\ncaf\xe9 au lait\n"
    path = tmp_path / "latin1.txt"
    path.write_bytes(gzip.compress(raw) if compress else raw)
    with pytest.raises(UserError, match=r"latin1\.txt:2: not UTF-8: byte 0xe9 at byte 4"):
        list(reading.lines(path))


@pytest.mark.parametrize(
    ("name", "content", "what"),
    [
        ("m.tmx", b'\xef\xbb\xbf<?xml version="1.0"?>\n<!DOCTYPE tmx>\n<tmx version="1.4">', r"XML \(<tmx>\)"),
        ("m.xlf", b'<xliff version="1.2">\n', r"XML \(<xliff>\)"),
        ("m.docx", b"PK\x03\x04\x14\x00\x06\x00", "a zip archive, or a document of an office program"),
        ("m.pdf", b"%PDF-1.7\n", "a PDF document"),
        ("m.bz2", bz2.compress(b"text"), "a bzip2 archive"),
        ("m.xz", lzma.compress(b"text"), "an xz archive"),
        ("m.zst", b"\x28\xb5\x2f\xfd\x24", "a Zstandard archive"),
        ("m.txt", "text\n".encode("utf-16"), "text in UTF-16"),
    ],
)
@pytest.mark.parametrize("compress", [False, True])
def test_a_file_of_another_format_is_named(
    name: str, content: bytes, what: str, compress: bool, tmp_path: Path
) -> None:
    (tmp_path / name).write_bytes(gzip.compress(content) if compress else content)
    with pytest.raises(UserError, match=rf"{name}: this is {what}.*lines of text were expected\n") as raised:
        list(reading.lines(tmp_path / name))
    assert raised.value.hint


def test_parquet_is_named_and_text_that_begins_alike_is_read(tmp_path: Path) -> None:
    import pandas

    pandas.DataFrame({"text": ["a"]}).to_parquet(tmp_path / "m.parquet")
    with pytest.raises(UserError, match=r"this is a Parquet file.*\n.*read_parquet"):
        list(reading.lines(tmp_path / "m.parquet"))
    lines = ["PAR1 is a receptor.", "<b>bold</b>", "BZh", "<?xmlish"]
    for line in lines:
        (tmp_path / "text").write_text(f"{line}\n")
        assert list(reading.lines(tmp_path / "text")) == [line]


@pytest.mark.parametrize("name", ["a.jsonl", "a.jsonl.gz", "a.ndjson", "A.JSONL"])
def test_json_lines_are_refused_as_text(name: str, tmp_path: Path) -> None:
    path, line = tmp_path / name, '{"text": "a"}'
    path.write_bytes(gzip.compress(line.encode()) if name.endswith("gz") else line.encode())
    with pytest.raises(UserError, match=r"these are JSON lines.*\n.*jq -r .text"):
        list(reading.lines(path))
    assert list(reading.json_lines(path)) == [line]
    path.write_text("plain text")
    assert list(reading.lines(path)) == ["plain text"]


def test_missing_folder_and_damaged_files(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="no such file"):
        list(reading.lines(tmp_path / "absent"))
    with pytest.raises(UserError, match="this is a folder"):
        list(reading.lines(tmp_path))
    whole = gzip.compress(b"a line of text\n" * 1000)
    (tmp_path / "cut.gz").write_bytes(whole[: len(whole) // 2])
    with pytest.raises(UserError, match=r"cut\.gz: damaged gzip"):
        list(reading.lines(tmp_path / "cut.gz"))
    (tmp_path / "flipped.gz").write_bytes(whole[:-8] + b"\0" * 8)
    with pytest.raises(UserError, match="damaged gzip"):
        list(reading.lines(tmp_path / "flipped.gz"))


@pytest.mark.parametrize("line", [b"\0" * 1023 + b"\n", b"\0" * (1 << 20), b"\n" * (1 << 20), b"a\n" * (1 << 19)])
def test_a_bomb_is_not_text(tmp_path: Path, line: bytes) -> None:
    path = tmp_path / "bomb.gz"
    with gzip.open(path, "wb") as file:
        for _ in range((80 << 20) // len(line)):
            file.write(line)
    assert path.stat().st_size < 1 << 20
    with pytest.raises(UserError, match=r"bomb\.gz: expands to more than 200 times its size"):
        reading.count(path)


@pytest.mark.slow
def test_a_text_of_short_lines_is_not_a_bomb(tmp_path: Path) -> None:
    """A label for each of a million segments, and the same text unzipped, whatever it is."""
    drawn = random.Random(1)
    labels = "".join(f"{drawn.randrange(2)}\n" for _ in range(1_000_000)).encode()
    (tmp_path / "labels.gz").write_bytes(gzip.compress(labels))
    assert reading.count(tmp_path / "labels.gz") == 1_000_000
    (tmp_path / "blank").write_bytes(b"\n" * 3_000_000)
    assert reading.count(tmp_path / "blank") == 3_000_000


def test_a_byte_order_mark_is_seen(tmp_path: Path) -> None:
    (tmp_path / "marked.gz").write_bytes(gzip.compress(b"\xef\xbb\xbfa\n"))
    (tmp_path / "plain").write_bytes(b"a\n")
    assert reading.has_byte_order_mark(tmp_path / "marked.gz")
    assert not reading.has_byte_order_mark(tmp_path / "plain")


def test_a_line_that_does_not_fit_into_memory_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bounded_lines, "LONGEST_LINE", 1000)
    path = tmp_path / "long.txt"
    path.write_bytes(b"short\n" + b"x" * 999 + b"\n" + b"x" * 1001)
    with pytest.raises(UserError, match=r"long\.txt:3: a line of more than 1,000 bytes"):
        reading.count(path)


def test_an_empty_file_has_no_lines(tmp_path: Path) -> None:
    (tmp_path / "empty").touch()
    assert reading.count(tmp_path / "empty") == 0
