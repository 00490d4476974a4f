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

# Seconds from a connection, or an answer, until the headers of a request must be complete.
HEADERS_TIMEOUT = 10.0
# The maximum connections without the token, and in all. Each is an open file; the usual limit of a process is 1,024.
MAX_UNAUTHENTICATED, MAX_CONNECTIONS = 128, 512
# The system's queue of connections; they are accepted at once, as further open files, until the oldest are closed.
_BACKLOG = 256
_HEADER_BYTES = 16 * 1024


def has_token(headers: Iterable[tuple[bytes, bytes]], token: str) -> bool:
    """Whether a request's headers hold the token."""
    value = next((value for name, value in headers if name == b"authorization"), b"")
    return hmac.compare_digest(value.removeprefix(b"Bearer "), token.encode())


def server(
    app: Any, token: str, *, headers: float = HEADERS_TIMEOUT, unauthenticated: int = MAX_UNAUTHENTICATED
) -> uvicorn.Server:
    """A server that `run` starts on sockets.

    Args:
        app: the ASGI application.
        token: the token that requests need.
        headers: seconds until the headers of a request must be complete.
        unauthenticated: the maximum number of connections without the token.
    """
    pending: dict[_Connection, None] = {}

    class Connection(_Connection):
        headers_timeout, max_pending, pending_connections, secret = headers, unauthenticated, pending, token

    config = uvicorn.Config(
        app,
        http=Connection,
        ws="none",
        log_level="error",
        access_log=False,
        backlog=_BACKLOG,
        timeout_graceful_shutdown=5,
        timeout_keep_alive=max(1, round(headers)),
        limit_concurrency=MAX_CONNECTIONS,
        h11_max_incomplete_event_size=_HEADER_BYTES,
    )
    return uvicorn.Server(config)


class _Connection(H11Protocol):
    """pending_connections: connections of this server that have not sent the token, the oldest first."""

    headers_timeout: float
    max_pending: int
    pending_connections: dict[_Connection, None]
    secret: str
    _deadline: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self.pending_connections[self] = None
        while len(self.pending_connections) > self.max_pending:
            next(iter(self.pending_connections))._drop()
        self._await_headers()

    def connection_lost(self, exc: Exception | None) -> None:
        self.pending_connections.pop(self, None)
        self._stop_waiting()
        super().connection_lost(exc)

    def handle_events(self) -> None:
        super().handle_events()
        if self._is_answering():
            self._stop_waiting()
            if has_token(self.headers, self.secret):
                self.pending_connections.pop(self, None)

    def on_response_complete(self) -> None:
        super().on_response_complete()
        if not self._is_answering() and not self.transport.is_closing():
            self._await_headers()

    def _is_answering(self) -> bool:
        """Whether a request's headers have arrived and its answer is not completely sent."""
        return self.cycle is not None and not self.cycle.response_complete

    def _await_headers(self) -> None:
        self._stop_waiting()
        self._deadline = self.loop.call_later(self.headers_timeout, self._drop)

    def _stop_waiting(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None

    def _drop(self) -> None:
        self.pending_connections.pop(self, None)
        self.connections.discard(self)  # at once, as the transport does so only in the loop's next iteration
        self.transport.abort()
