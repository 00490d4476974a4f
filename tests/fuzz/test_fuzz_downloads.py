"""Answers of a server on this machine: any bytes, at any place of an answer, in any pieces."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest
from hypothesis import strategies as st

from fuzzing import answers, fuzzed
from raw_servers import raw_server
from subgraft.base.security.downloads import fetch
from subgraft.data.sources.urls import UrlFile

pytestmark = pytest.mark.slow

BODY = b"one line\nanother\n"
STATUS = (
    b"HTTP/1.1 200 OK\r\n",
    b"HTTP/1.0 206 Partial\r\n",
    b"HTTP/1.1 100 Continue\r\n\r\n",
    b"HTTP/1.1 302 Found\r\nLocation: file:///etc/passwd\r\n",
    b"HTTP/1.1 301 Moved\r\nLocation: //[\r\n",
    b"HTTP/1.1 416 No\r\n",
    b"HTTP/1.1 503 Later\r\n",
    b"HTTP/9 -1 \xff\r\n",
)
HEADERS = (
    b"Content-Length: 17\r\n",
    b"Content-Length: -5\r\n",
    b"Content-Length: 99999999999999999999\r\n",
    b"Content-Length: \xc2\xb2\r\n",
    b"Transfer-Encoding: chunked\r\n",
    b"Content-Range: bytes 9-16/17\r\n",
    b"Content-Encoding: gzip\r\n",
    b": \r\n",
    b"no colon\r\n",
    b"X" * 70_000 + b": y\r\n",
)
pieces = st.lists(
    st.sampled_from((*STATUS, *HEADERS, b"\r\n", b"\r\n\r\n", BODY, b"11\r\n" + BODY + b"\r\n0\r\n\r\n", b"-1\r\n"))
    | st.binary(max_size=20),
    max_size=8,
)


@fuzzed(500, first=st.sampled_from(STATUS), rest=pieces, part=st.sampled_from([b"", BODY[:9], BODY, b"other"]))
def test_any_answer_is_the_file_or_refused(first: bytes, rest: list[bytes], part: bytes, tmp_path: Path) -> None:
    digest = hashlib.sha256(BODY).hexdigest()
    (tmp_path / digest).unlink(missing_ok=True)
    (tmp_path / f"{digest}.part").write_bytes(part)
    with raw_server([(0.0, piece) for piece in (first, *rest)]) as address, answers():
        result = fetch(UrlFile(url=address, sha256=digest), tmp_path, timeout=0.5, max_bytes=100_000)
        assert result.read_bytes() == BODY
    assert {path.name for path in tmp_path.iterdir()} <= {digest, f"{digest}.part"}, "a lock is left"
