"""Downloads against a real HTTP server on this machine: resumed, capped, verified."""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from subgraft.base.errors import OperationalError, UserError
from subgraft.base.security.downloads import fetch
from subgraft.data.sources.urls import UrlFile

BODY = b"".join(f"line {number}\n".encode() for number in range(50_000))


class Server(ThreadingHTTPServer):
    """Serves BODY under paths that name its manners; `requests` holds (path, Range header)."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.requests: list[tuple[str, str | None]] = []
        self.truncate_at: int | None = None

    def file(self, path: str, body: bytes = BODY) -> UrlFile:
        address = f"http://127.0.0.1:{self.server_address[1]}/{path}"
        return UrlFile(url=address, sha256=hashlib.sha256(body).hexdigest())


class Handler(BaseHTTPRequestHandler):
    server: Server

    def do_GET(self) -> None:
        span = self.headers.get("Range")
        self.server.requests.append((self.path, span))
        if self.path.startswith("/to/"):
            self.send_response(302)
            self.send_header("Location", self.path.removeprefix("/to/"))
            self.end_headers()
        elif self.path == "/endless":
            self.endless()
        elif self.path == "/silent":
            threading.Event().wait(3)
        elif self.path.startswith("/status/"):
            self.send_error(int(self.path.rpartition("/")[2]))
        else:
            self.body(int(span[6:-1]) if span and self.path != "/no-ranges" else 0)

    def body(self, start: int) -> None:
        if start >= len(BODY):
            self.send_error(416)
            return
        self.send_response(206 if start else 200)
        if start:
            self.send_header("Content-Range", f"bytes {start}-{len(BODY) - 1}/{len(BODY)}")
        self.send_header("Content-Length", str(len(BODY) - start))
        self.send_header("Content-Disposition", 'attachment; filename="../../../etc/cron.d/up"')
        self.end_headers()
        self.wfile.write(BODY[start : self.server.truncate_at])

    def endless(self) -> None:
        self.send_response(200)
        self.end_headers()
        try:
            while True:
                self.wfile.write(b"x" * 65536)
        except OSError:
            pass

    def log_message(self, format: str, *args: object) -> None:
        pass


@pytest.fixture
def server() -> Iterator[Server]:
    with Server() as running:
        threading.Thread(target=running.serve_forever, args=(0.05,), daemon=True).start()
        yield running
        running.shutdown()


def left(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_a_file_is_downloaded_once_and_progress_is_reported(server: Server, tmp_path: Path) -> None:
    message: list[tuple[int, int | None]] = []
    file = server.file("body")
    path = fetch(file, tmp_path, progress=lambda done, total: message.append((done, total)))
    assert path.read_bytes() == BODY
    assert path == fetch(file, tmp_path) == tmp_path / file.sha256
    assert len(server.requests) == 1
    assert message[-1] == (len(BODY), len(BODY))
    assert left(tmp_path) == [file.sha256]


@pytest.mark.parametrize(("path", "span"), [("body", "bytes=200000-"), ("no-ranges", "bytes=200000-")])
def test_a_cut_connection_is_carried_on(server: Server, tmp_path: Path, path: str, span: str) -> None:
    file = server.file(path)
    server.truncate_at = 200_000
    with pytest.raises(OperationalError, match=r"closed after 200,000 of .*\n.*resumes") as caught:
        fetch(file, tmp_path)
    assert caught.value.exit_code == 1
    assert not (tmp_path / file.sha256).exists()
    server.truncate_at = None
    assert fetch(file, tmp_path).read_bytes() == BODY
    assert server.requests[-1] == (f"/{path}", span)


@pytest.mark.parametrize("remains", [b"of an older version", BODY, BODY + b"more"])
def test_remains_of_any_kind_end_well(server: Server, tmp_path: Path, remains: bytes) -> None:
    file = server.file("body")
    (tmp_path / f"{file.sha256}.part").write_bytes(remains)
    assert fetch(file, tmp_path).read_bytes() == BODY
    assert left(tmp_path) == [file.sha256]


def test_another_digest_leaves_no_file(server: Server, tmp_path: Path) -> None:
    result = hashlib.sha256(BODY).hexdigest()
    with pytest.raises(UserError, match=f"the download has SHA-256 {result}"):
        fetch(server.file("body", b"what was expected"), tmp_path)
    assert left(tmp_path) == []


@pytest.mark.parametrize("path", ["endless", "body"])
def test_too_large_a_body_is_cut_off(server: Server, tmp_path: Path, path: str) -> None:
    with pytest.raises(UserError, match="more than the 300,000 bytes"):
        fetch(server.file(path), tmp_path, max_bytes=300_000)
    assert left(tmp_path) == []


@pytest.mark.parametrize(
    ("code", "kind"), [(404, UserError), (403, UserError), (429, OperationalError), (503, OperationalError)]
)
def test_refusals_are_the_users_and_failures_the_worlds(
    server: Server, tmp_path: Path, code: int, kind: type[Exception]
) -> None:
    with pytest.raises(kind, match=f"the server answers {code}"):
        fetch(server.file(f"status/{code}"), tmp_path)


def test_silence_and_absence_are_network_failures(server: Server, tmp_path: Path) -> None:
    with pytest.raises(OperationalError, match="timed out"):
        fetch(server.file("silent"), tmp_path, timeout=0.2)
    absent = UrlFile(url="http://127.0.0.1:1/body", sha256="0" * 64)
    with pytest.raises(OperationalError, match="refused"):
        fetch(absent, tmp_path)


@pytest.mark.parametrize("url", ["file:///etc/hostname", "ftp://example.org/x", "corpus.gz", "http:///x"])
def test_other_addresses_are_refused(tmp_path: Path, url: str) -> None:
    with pytest.raises(UserError, match="only http"):
        fetch(UrlFile(url=url, sha256="0" * 64), tmp_path)


@pytest.mark.parametrize("address", ["ftp://127.0.0.1:1/x", "file:///etc/hostname", "data:,x"])
def test_a_server_cannot_send_elsewhere(server: Server, tmp_path: Path, address: str) -> None:
    with pytest.raises(UserError, match=r"only http|answers 302"):
        fetch(server.file(f"to/{address}"), tmp_path)
    assert left(tmp_path) == []


def test_another_address_on_the_web_is_followed(server: Server, tmp_path: Path) -> None:
    file = server.file("to//body")
    assert fetch(file, tmp_path).read_bytes() == BODY


def test_a_download_that_was_damaged_later_is_fetched_again(server: Server, tmp_path: Path) -> None:
    file = server.file("body")
    path = fetch(file, tmp_path)
    path.write_bytes(BODY[:-1] + b"x")
    assert fetch(file, tmp_path).read_bytes() == BODY
    path.write_bytes(b"")
    assert fetch(file, tmp_path).read_bytes() == BODY
    assert len(server.requests) == 3


@pytest.mark.parametrize("name", ["../../up", "/tmp/absolute", "%2e%2e%2fup", "a/../../../up", "..%5Cup", "C:%5Cup"])
def test_no_file_is_named_by_an_address_or_a_server(server: Server, tmp_path: Path, name: str) -> None:
    folder = tmp_path / "one" / "two" / "downloads"
    file = server.file(f"named/{name}")
    assert fetch(file, folder) == folder / file.sha256
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == [folder / file.sha256]


def test_two_at_once_download_once(server: Server, tmp_path: Path) -> None:
    file = server.file("body")
    threads = [threading.Thread(target=fetch, args=(file, tmp_path)) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(server.requests) == 1
    assert (tmp_path / file.sha256).read_bytes() == BODY
