"""Answers that drip, or that never end: a download gives up, says after what, and lets go of its lock."""

from __future__ import annotations

import itertools
import time
from collections.abc import Iterable
from pathlib import Path

import pytest

from raw_servers import Pieces, raw_server
from subgraft.base.errors import OperationalError
from subgraft.base.locks import Lock
from subgraft.base.security.downloads import fetch
from subgraft.data.sources.urls import UrlFile

OK = b"HTTP/1.1 200 OK\r\n"
CONTINUE = b"HTTP/1.1 100 Continue\r\n\r\n"
DIGEST = "0" * 64


class Forever:
    """Some pieces, then others again and again, the same for every request."""

    def __init__(self, first: bytes, then: Iterable[tuple[float, bytes]]) -> None:
        self.first, self.then = first, tuple(then)

    def __iter__(self) -> itertools.chain[tuple[float, bytes]]:
        return itertools.chain([(0.0, self.first)], itertools.cycle(self.then))


@pytest.mark.parametrize(
    ("pieces", "complaint"),
    [
        (Forever(OK + b"Content-Length: 9999\r\n\r\n", [(0.05, b"x")]), "too slow: .*SUBGRAFT_DOWNLOAD_MIN_SPEED"),
        (Forever(OK, [(0.05, b"X")]), "no complete answer after"),
        (Forever(OK, [(0.0, b"X-Header: " + b"x" * 60_000 + b"\r\n")]), "headers of more than|got more than 100"),
        (Forever(b"", [(0.05, CONTINUE)]), "no complete answer after"),
        (Forever(b"", [(0.0, CONTINUE * 100)]), "headers of more than|no complete answer after"),
        (
            Forever(OK + b"Transfer-Encoding: chunked\r\n\r\n2\r\nab\r\n0\r\n", [(0.0, b"X: y\r\n" * 1000)]),
            "an endless answer",
        ),
        (Forever(b"HTTP/1.1 302 Found\r\nLocation: /x\r\n\r\n", [(0.0, b"x" * 65536)]), "headers of more than"),
    ],
    ids=[
        "dripped body",
        "dripped header",
        "endless header",
        "dripped 100",
        "endless 100",
        "endless trailer",
        "redirect",
    ],
)
def test_an_answer_that_drips_or_never_ends_is_given_up(tmp_path: Path, pieces: Pieces, complaint: str) -> None:
    began = time.monotonic()
    with raw_server(pieces) as address, pytest.raises(OperationalError, match=complaint):
        fetch(UrlFile(url=address, sha256=DIGEST), tmp_path, timeout=0.5, max_bytes=1_000_000)
    assert time.monotonic() - began < 15
    lock = Lock.take(tmp_path / f"{DIGEST}.lock")
    assert lock is not None, "the lock is still held"
    lock.release()


def test_a_download_has_a_deadline_however_fast_it_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SUBGRAFT_DOWNLOAD_MAX_SECONDS", "1")
    steady = Forever(OK + b"\r\n", [(0.05, b"x" * 10_000)])
    with (
        raw_server(steady) as address,
        pytest.raises(OperationalError, match="SUBGRAFT_DOWNLOAD_MAX_SECONDS") as message,
    ):
        fetch(UrlFile(url=address, sha256=DIGEST), tmp_path)
    assert "resumes" in message.value.hint
    assert (tmp_path / f"{DIGEST}.part").stat().st_size > 0


def test_a_slow_server_is_borne_where_the_limit_allows_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SUBGRAFT_DOWNLOAD_MIN_SPEED", "1")
    from hashlib import sha256

    body = b"x" * 12
    pieces = [(0.0, OK + b"Content-Length: 12\r\n\r\n"), *((0.1, b"x") for _ in body)]
    with raw_server(pieces) as address:
        assert fetch(UrlFile(url=address, sha256=sha256(body).hexdigest()), tmp_path, timeout=0.5).read_bytes() == body
