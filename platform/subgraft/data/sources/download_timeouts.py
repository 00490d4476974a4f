"""Time limits of downloads: a total deadline, a deadline for headers, and a minimum speed.

A socket timeout only limits each read: a byte every few seconds, endless headers or repeated `100 Continue` responses
would block a download forever.
"""

from __future__ import annotations

import io
import socket
import time
from collections.abc import Callable
from functools import partial
from http.client import HTTPConnection, HTTPResponse, HTTPSConnection
from typing import Any
from urllib.request import HTTPHandler, HTTPSHandler, Request

from subgraft.base.limits import DOWNLOAD_SECONDS, DOWNLOAD_SPEED

# More than any redirects and headers take.
_HEADER_BYTES = 1 << 20
# What chunks and their lengths may add to a body, as a share of it.
_FRAMING = 2


class Pace:
    """The time left to one download. Its clock starts when it is created.

    seconds: for all of it.  timeout: for its headers, of silence, and of the stretches over which the least speed, in
    bytes a second, is kept.
    """

    def __init__(self, seconds: float, timeout: float, least_speed: int, max_bytes: int) -> None:
        self.seconds, self.timeout, self.least_speed, self.max_bytes = seconds, timeout, least_speed, max_bytes
        self._began = self._stretch_began = time.monotonic()
        self._received = self._stretch_received = 0
        self._in_body = False

    def begin_body(self) -> None:
        """The headers are over: from here on the speed counts."""
        self._in_body = True
        self._stretch_began, self._stretch_received = time.monotonic(), 0

    def next_wait(self) -> float:
        """Seconds that the next read may take. Raises TimeoutError where there are none left."""
        now = time.monotonic()
        left = self._began + self.seconds - now
        if left <= 0:
            said = f"not done after {self.seconds:g} seconds ({DOWNLOAD_SECONDS.variable} sets another limit)"
            raise TimeoutError(said)
        if not self._in_body:
            left = min(left, self._began + self.timeout - now)
            if left <= 0:
                raise TimeoutError(f"timed out: no answer that ends after {self.timeout:g} seconds")
        return min(self.timeout, left)

    def received(self, count: int) -> None:
        """Count bytes that came. Raises TimeoutError where they come too slowly, OSError where they never end."""
        self._received += count
        self._stretch_received += count
        if not self._in_body and self._received > _HEADER_BYTES:
            raise OSError(f"headers of more than {_HEADER_BYTES:,} bytes")
        if self._received > _FRAMING * self.max_bytes + _HEADER_BYTES:
            raise OSError("an answer without end")
        took = time.monotonic() - self._stretch_began
        if self._in_body and took >= self.timeout:
            if self._stretch_received < self.least_speed * took:
                speed = f"{self._stretch_received / took:,.0f} bytes a second"
                raise TimeoutError(f"too slow: {speed} ({DOWNLOAD_SPEED.variable} sets another least speed)")
            self._stretch_began, self._stretch_received = time.monotonic(), 0


def paced_handlers(pace: Pace) -> tuple[HTTPHandler, HTTPSHandler]:
    """For urllib: connections whose answers are read at this pace."""
    return _Handler(pace), _SecureHandler(pace)


class _Handler(HTTPHandler):
    def __init__(self, pace: Pace) -> None:
        super().__init__()
        self._pace = pace

    def http_open(self, request: Request) -> HTTPResponse:
        return self.do_open(_paced(HTTPConnection, self._pace), request)


class _SecureHandler(HTTPSHandler):
    def __init__(self, pace: Pace) -> None:
        super().__init__()
        self._pace = pace

    def https_open(self, request: Request) -> HTTPResponse:
        return self.do_open(_paced(HTTPSConnection, self._pace), request)


def _paced(kind: type[HTTPConnection], pace: Pace) -> Callable[..., HTTPConnection]:
    def connect(*given: Any, **named: Any) -> HTTPConnection:
        connection = kind(*given, **named)
        connection.response_class = partial(_Response, pace)  # type: ignore[assignment]
        return connection

    return connect


class _Response(HTTPResponse):
    """A response that is read from the socket within the time limits, including its status line and headers."""

    def __init__(self, pace: Pace, sock: socket.socket, *given: Any, **named: Any) -> None:
        super().__init__(sock, *given, **named)
        self.fp = io.BufferedReader(_Paced(self.fp.detach(), sock, pace))


class _Paced(io.RawIOBase):
    def __init__(self, raw: io.RawIOBase, sock: socket.socket, pace: Pace) -> None:
        self._raw, self._sock, self._pace = raw, sock, pace

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int | None:
        self._sock.settimeout(self._pace.next_wait())
        try:
            count: int | None = self._raw.readinto(buffer)
        except TimeoutError:
            self._pace.next_wait()  # says which limit it was, where it was not silence
            raise
        self._pace.received(count or 0)
        return count

    def close(self) -> None:
        self._raw.close()
        super().close()
