"""Downloads pinned by SHA-256: resumable, limited in size, time and slowness, and published by renaming.

A socket timeout only limits each read: a byte every few seconds, endless headers or repeated `100 Continue` responses
would block a download forever. So there are a total deadline, a deadline for headers, and a minimum speed.
"""

from __future__ import annotations

import io
import os
import re
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache, partial
from http.client import HTTPConnection, HTTPException, HTTPResponse, HTTPSConnection
from pathlib import Path
from typing import Any, Protocol, cast
from urllib.error import HTTPError
from urllib.parse import urlsplit
from urllib.request import HTTPHandler, HTTPRedirectHandler, HTTPSHandler, Request, build_opener

from subgraft.base.errors import OperationalError, UserError
from subgraft.base.files import file_digest
from subgraft.base.locks import Lock
from subgraft.base.progress import DownloadCallback
from subgraft.base.security.limits import DOWNLOAD_BYTES, DOWNLOAD_SECONDS, DOWNLOAD_SPEED

TIMEOUT_SECONDS = 30.0
_BLOCK = 1 << 18
_TRY_LATER = (408, 425, 429)
# More than redirects and headers ever need.
_HEADER_BYTES = 1 << 20
# The maximum size of a body relative to the file, because chunked encoding adds the lengths of chunks.
_FRAMING = 2


class PinnedFile(Protocol):
    """A file to download: its address and its SHA-256."""

    @property
    def url(self) -> str: ...
    @property
    def sha256(self) -> str: ...


class RequestLimits:
    """The limits of one request; its clock starts when it is created.

    Args:
        seconds: The limit of the whole request.
        timeout: The limit in seconds on the headers and on silence, and the interval at which the speed is measured.
        min_speed: The minimum speed in bytes per second.
        max_bytes: The maximum size of the file.
    """

    def __init__(self, seconds: float, timeout: float, min_speed: int, max_bytes: int) -> None:
        self.seconds, self.timeout, self.min_speed, self.max_bytes = seconds, timeout, min_speed, max_bytes
        self._start = self._interval_start = time.monotonic()
        self._received = self._interval_received = 0
        self._in_body = False

    def begin_body(self) -> None:
        """The headers have ended: from now on the speed is measured."""
        self._in_body = True
        self._interval_start, self._interval_received = time.monotonic(), 0

    def next_wait(self) -> float:
        """Seconds that the next read may take. Raises TimeoutError if none are left."""
        now = time.monotonic()
        remaining = self._start + self.seconds - now
        if remaining <= 0:
            message = f"not done after {self.seconds:g} seconds ({DOWNLOAD_SECONDS.variable} sets another limit)"
            raise TimeoutError(message)
        if not self._in_body:
            remaining = min(remaining, self._start + self.timeout - now)
            if remaining <= 0:
                raise TimeoutError(f"timed out: no complete answer after {self.timeout:g} seconds")
        return min(self.timeout, remaining)

    def received(self, count: int) -> None:
        """Count received bytes. Raises TimeoutError if they arrive too slowly, OSError if they are too many."""
        self._received += count
        self._interval_received += count
        if not self._in_body and self._received > _HEADER_BYTES:
            raise OSError(f"headers of more than {_HEADER_BYTES:,} bytes")
        if self._received > _FRAMING * self.max_bytes + _HEADER_BYTES:
            raise OSError("an endless answer")
        elapsed = time.monotonic() - self._interval_start
        if self._in_body and elapsed >= self.timeout:
            if self._interval_received < self.min_speed * elapsed:
                speed = f"{self._interval_received / elapsed:,.0f} bytes a second"
                raise TimeoutError(f"too slow: {speed} ({DOWNLOAD_SPEED.variable} sets another minimum speed)")
            self._interval_start, self._interval_received = time.monotonic(), 0


class _LimitedHandler(HTTPHandler, HTTPSHandler):
    """Replaces both of urllib's handlers by connections whose responses are read within the limits of their request."""

    def __init__(self, limits: RequestLimits) -> None:
        super().__init__()
        self._limits = limits

    def http_open(self, request: Request) -> HTTPResponse:
        return self.do_open(partial(self._connect, HTTPConnection), request)

    def https_open(self, request: Request) -> HTTPResponse:
        return self.do_open(partial(self._connect, HTTPSConnection), request)

    def _connect(self, kind: type[HTTPConnection], *args: Any, **kwargs: Any) -> HTTPConnection:
        connection = kind(*args, **kwargs)
        connection.response_class = partial(_Response, self._limits)  # type: ignore[assignment]
        return connection


class _Response(HTTPResponse):
    """A response that is read from the socket within the time limits, including its status line and headers."""

    def __init__(self, limits: RequestLimits, sock: socket.socket, *args: Any, **kwargs: Any) -> None:
        super().__init__(sock, *args, **kwargs)
        self.fp = io.BufferedReader(_LimitedReader(self.fp.detach(), sock, limits))


class _LimitedReader(io.RawIOBase):
    def __init__(self, raw: io.RawIOBase, sock: socket.socket, limits: RequestLimits) -> None:
        self._raw, self._sock, self._limits = raw, sock, limits

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int | None:
        self._sock.settimeout(self._limits.next_wait())
        try:
            count: int | None = self._raw.readinto(buffer)
        except TimeoutError:
            self._limits.next_wait()  # raises if another limit than that on silence was exceeded
            raise
        self._limits.received(count or 0)
        return count

    def close(self) -> None:
        self._raw.close()
        super().close()


def cache_folder() -> Path:
    """The folder of downloaded files: SUBGRAFT_HOME, or `.subgraft` in the working directory."""
    return Path(os.environ.get("SUBGRAFT_HOME") or ".subgraft")


def fetch(
    file: PinnedFile,
    folder: Path | None = None,
    *,
    progress: DownloadCallback | None = None,
    max_bytes: int | None = None,
    timeout: float = TIMEOUT_SECONDS,
    seconds: float | None = None,
) -> Path:
    """The file at `file.url`, downloaded once into `folder`/<sha256>.

    A partial download is resumed if the server supports it; a file damaged since then is downloaded again.

    Args:
        file: The address and the SHA-256.
        folder: Default: downloads in the cache folder.
        progress: Called with received and total bytes.
        max_bytes, seconds: The limits of the download; by default those of `base.security.limits`.
        timeout: Seconds of silence, and the interval in which the minimum speed is measured.

    Raises:
        UserError: The address is not HTTP(S) or is refused, the file is too large, or the digest differs; no file
            remains.
        OperationalError: The network or server fails or is too slow; the same call resumes.
    """
    folder = folder or cache_folder() / "downloads"
    target = folder / file.sha256
    if _is_complete(target, file.sha256):
        return target
    _require_web(file.url)
    folder.mkdir(parents=True, exist_ok=True)
    # If two runs need the same file, the second waits for the first.
    with Lock.wait(folder / f"{file.sha256}.lock", "downloads the same file"):
        if not _is_complete(target, file.sha256):
            target.unlink(missing_ok=True)
            limits = seconds or DOWNLOAD_SECONDS.value, timeout, DOWNLOAD_SPEED.value, max_bytes or DOWNLOAD_BYTES.value
            _download(file, target, partial(RequestLimits, *limits), progress or (lambda done, total: None))
    return target


def _is_complete(path: Path, sha256: str) -> bool:
    """Whether a file with this digest exists. A process only reads a file again if it has changed."""
    if not path.is_file():
        return False
    stat = path.stat()
    return _digest(path, stat.st_size, stat.st_mtime_ns, stat.st_ino) == sha256


@cache
def _digest(path: Path, *state: int) -> str:
    del state
    return file_digest(path)


def _require_web(url: str) -> None:
    address = urlsplit(url)
    if address.scheme not in ("http", "https") or not address.hostname:
        raise UserError("only http://… and https://… addresses can be downloaded", where=url)


class _WebOnly(HTTPRedirectHandler):
    """Follows redirects to HTTP(S) addresses only; Python's own handler also allows ftp."""

    def redirect_request(self, *args: Any) -> Request | None:
        *_, new_url = args
        _require_web(new_url)
        return super().redirect_request(*args)


def _download(
    file: PinnedFile, target: Path, start_limits: Callable[[], RequestLimits], progress: DownloadCallback
) -> None:
    """Download a file; raises as `fetch` does. `start_limits` starts the clock of a request."""
    part = target.with_name(f"{target.name}.part")
    resumed = part.is_file() and part.stat().st_size > 0
    with _network(file.url):
        _receive(file.url, part, start_limits(), progress)
        if resumed and file_digest(part) != file.sha256:
            # The partial download may be of another version of the file, so download all of it again.
            part.unlink()
            _receive(file.url, part, start_limits(), progress)
    actual = file_digest(part)
    if actual != file.sha256:
        part.unlink()
        hint = f"Expected {file.sha256}. If the file has rightly changed, pin the new digest."
        raise UserError(f"the download has SHA-256 {actual}", where=file.url, hint=hint)
    part.replace(target)


def _receive(url: str, part: Path, limits: RequestLimits, progress: DownloadCallback) -> None:
    start = part.stat().st_size if part.is_file() else 0
    response = _request(url, start, limits)
    if response is None:
        return
    with response:
        limits.begin_body()
        done = start if _resumes(response, start) else 0
        announced = response.headers.get("Content-Length")
        total = done + int(announced) if announced and announced.isdecimal() else None
        _require_small(total or 0, url, part, limits)
        with part.open("ab" if done else "wb") as out:
            while block := response.read1(_BLOCK):
                done += len(block)
                _require_small(done, url, part, limits)
                out.write(block)
                progress(done, total)
            out.flush()
            os.fsync(out.fileno())
    if total is not None and done < total:
        raise OSError(f"the connection closed after {done:,} of {total:,} bytes")


def _request(url: str, start: int, limits: RequestLimits) -> HTTPResponse | None:
    """The response from byte `start` on; None if there are no more bytes."""
    headers = {"User-Agent": "subgraft", **({"Range": f"bytes={start}-"} if start else {})}
    try:
        opener = build_opener(_WebOnly, _LimitedHandler(limits))
        return cast(HTTPResponse, opener.open(Request(url, headers=headers), timeout=limits.timeout))
    except HTTPError as error:
        if error.code == 416 and start:
            return None
        raise


def _resumes(response: HTTPResponse, start: int) -> bool:
    span = re.match(r"bytes (\d+)-", response.headers.get("Content-Range", ""))
    return response.status == 206 and span is not None and int(span[1]) == start


def _require_small(size: int, url: str, part: Path, limits: RequestLimits) -> None:
    if size > limits.max_bytes:
        part.unlink(missing_ok=True)
        what = f"more than the {limits.max_bytes:,} bytes a download may have"
        raise UserError(what, where=url, hint=f"{DOWNLOAD_BYTES.variable} sets another limit.")


@contextmanager
def _network(url: str) -> Iterator[None]:
    again = "Run the same command again: it resumes where it stopped."
    try:
        yield
    except HTTPError as error:
        what = f"the server answers {error.code} {error.reason}"
        if 300 <= error.code < 500 and error.code not in _TRY_LATER:
            raise UserError(what, where=url, hint="Check the address.") from None
        raise OperationalError(what, where=url, hint=again) from None
    except (OSError, HTTPException, ValueError) as error:
        raise OperationalError(f"the download broke off: {error}", where=url, hint=again) from None
