"""A real HTTP server that stands before another one and, on request, returns errors and truncated responses."""

from __future__ import annotations

import http.client
import itertools
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Literal, TypeAlias
from urllib.parse import urlsplit

Fault: TypeAlias = Literal["500 unasked", "500 after it", "403 page", "cut body", "half JSON", "no answer", "none"]
# What is asked for is done by the server behind it in four of them; in each seventh answer all is well.
FAULTS: tuple[Fault, ...] = (
    "500 after it",
    "cut body",
    "500 unasked",
    "half JSON",
    "403 page",
    "no answer",
    "none",
)


class FaultyProxy:
    """Hands requests on to the server at `uri`, and answers as `broken` says; `seen` counts the answers by fault."""

    def __init__(self, uri: str) -> None:
        self.broken = False
        self.seen: dict[Fault, int] = dict.fromkeys(FAULTS, 0)
        self._behind = urlsplit(uri).netloc
        self._next = itertools.cycle(FAULTS)
        self._counting = threading.Lock()
        proxy = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_request(self) -> None:
                proxy._answer(self)

            do_GET = do_POST = do_PUT = do_PATCH = do_DELETE = do_request  # noqa: N815

            def log_message(self, format: str, *arguments: object) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.uri = f"http://127.0.0.1:{self._server.server_port}"
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()

    def _answer(self, request: BaseHTTPRequestHandler) -> None:
        with self._counting:
            fault = next(self._next) if self.broken else "none"
            self.seen[fault] += 1
        request.close_connection = True
        asked = request.rfile.read(int(request.headers.get("Content-Length", 0)))
        if fault == "500 unasked":
            self._send(request, 500, b"<html>Internal Server Error</html>")
            return
        if fault == "403 page":
            self._send(request, 403, b"<html>not for you</html>")
            return
        status, body = self._ask(request, asked)
        if fault == "none":
            self._send(request, status, body)
        elif fault == "500 after it":
            self._send(request, 500, b'{"error_code": "INTERNAL_ERROR", "message": "simulated failure"}')
        elif fault == "half JSON":
            self._send(request, status, body[: len(body) // 2] or b"{")
        elif fault == "cut body":
            self._send(request, status, body[: len(body) // 2], length=len(body))

    def _ask(self, request: BaseHTTPRequestHandler, asked: bytes) -> tuple[int, bytes]:
        connection = http.client.HTTPConnection(self._behind, timeout=120)
        headers = {name: value for name, value in request.headers.items() if name.lower() not in ("host", "connection")}
        try:
            connection.request(request.command, request.path, asked, headers)
            answer = connection.getresponse()
            return answer.status, answer.read()
        finally:
            connection.close()

    @staticmethod
    def _send(request: BaseHTTPRequestHandler, status: int, body: bytes, length: int | None = None) -> None:
        request.send_response(status)
        request.send_header("Content-Type", "application/json")
        request.send_header("Content-Length", str(len(body) if length is None else length))
        request.send_header("Connection", "close")
        request.end_headers()
        request.wfile.write(body)
