"""The HTTP server of an application: a deadline for headers, and limits on connections.

uvicorn waits for a request's headers without limit, and counts incomplete requests among its connections. Here headers
have a deadline. Until its headers arrive, a connection cannot be authenticated, so connections without the token are
limited and a new one closes the oldest: a client that opens hundreds closes its own, and a client with the token is
recognised as soon as its headers arrive.
"""

from __future__ import annotations

import asyncio
import hmac
from collections.abc import Iterable
from typing import Any

import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

# Seconds from a connection, or an answer, until the headers of a request are there.
HEADERS = 10.0
# Connections at once: without the token, and in all. Each is a file of the process, which may often have 1,024.
STRANGERS, CONNECTIONS = 128, 512
# Connections that the system queues; they are accepted at once, as further files, until the oldest are closed.
_BACKLOG = 256
_HEADER_BYTES = 16 * 1024


def has_token(headers: Iterable[tuple[bytes, bytes]], token: str) -> bool:
    """Whether a request's headers hold the token."""
    value = next((value for name, value in headers if name == b"authorization"), b"")
    return hmac.compare_digest(value.removeprefix(b"Bearer "), token.encode())


def server(app: Any, token: str, *, headers: float = HEADERS, strangers: int = STRANGERS) -> uvicorn.Server:
    """A server that `run` starts on sockets.

    Args:
        app: the ASGI application.
        token: the token that requests need.
        headers: seconds until the headers of a request must be complete.
        strangers: the most connections without the token.
    """
    unknown: dict[_Connection, None] = {}

    class Connection(_Connection):
        seconds, most, waiting, secret = headers, strangers, unknown, token

    config = uvicorn.Config(
        app,
        http=Connection,
        ws="none",
        log_level="error",
        access_log=False,
        backlog=_BACKLOG,
        timeout_graceful_shutdown=5,
        timeout_keep_alive=max(1, round(headers)),
        limit_concurrency=CONNECTIONS,
        h11_max_incomplete_event_size=_HEADER_BYTES,
    )
    return uvicorn.Server(config)


class _Connection(H11Protocol):
    """waiting: connections of this server that have not shown the token, the oldest first."""

    seconds: float
    most: int
    waiting: dict[_Connection, None]
    secret: str
    _deadline: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self.waiting[self] = None
        while len(self.waiting) > self.most:
            next(iter(self.waiting))._drop()
        self._await_headers()

    def connection_lost(self, exc: Exception | None) -> None:
        self.waiting.pop(self, None)
        self._stop_waiting()
        super().connection_lost(exc)

    def handle_events(self) -> None:
        super().handle_events()
        if self._is_answering():
            self._stop_waiting()
            if has_token(self.headers, self.secret):
                self.waiting.pop(self, None)

    def on_response_complete(self) -> None:
        super().on_response_complete()
        if not self._is_answering() and not self.transport.is_closing():
            self._await_headers()

    def _is_answering(self) -> bool:
        """Whether a request's headers have come, and not all of its answer has gone."""
        return self.cycle is not None and not self.cycle.response_complete

    def _await_headers(self) -> None:
        self._stop_waiting()
        self._deadline = self.loop.call_later(self.seconds, self._drop)

    def _stop_waiting(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None

    def _drop(self) -> None:
        self.waiting.pop(self, None)
        self.connections.discard(self)  # at once: the transport says so only in the loop's next round
        self.transport.abort()
