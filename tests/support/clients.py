"""A server of this package on 127.0.0.1 in a thread, and clients that speak to its socket byte by byte."""

from __future__ import annotations

import contextlib
import json
import socket
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from subgraft.base.security.http_server import server
from subgraft.experiments.origin import Origin
from subgraft.interfaces.serving.application import application
from subgraft.interfaces.serving.writer import Served, Writer
from toys import english_tokenizer, german_tokenizer

TOKEN = "a-token"
HALF = b"POST /translate HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer "


def upper(texts: Any) -> list[str]:
    return [text.upper() for text in texts]


def writer(write: Callable[[Any], list[str]] = upper) -> Writer:
    return Writer("nothing", english_tokenizer(), german_tokenizer(), lambda texts, beam: write(texts))


def request(text: str, token: str = TOKEN) -> bytes:
    """All bytes of a request for a translation."""
    body = json.dumps({"texts": [text]}).encode()
    return HALF + f"{token}\r\nContent-Length: {len(body)}\r\n\r\n".encode() + body


class Clients:
    """Connections to one server, closed at the end."""

    def __init__(self, port: int, stack: contextlib.ExitStack) -> None:
        self._port, self._stack = port, stack

    def connect(self, sent: bytes = b"") -> socket.socket:
        connection = socket.create_connection(("127.0.0.1", self._port), timeout=20)
        self._stack.enter_context(connection)
        connection.sendall(sent)
        return connection

    def ask(self, text: str, token: str = TOKEN) -> tuple[int, bytes]:
        """Status and body of a request that is sent as a whole."""
        return answer(self.connect(request(text, token)))


def answer(connection: socket.socket) -> tuple[int, bytes]:
    """Status and body of the response; status 0 where the server closes the connection."""
    received = b""
    with contextlib.suppress(ConnectionError):
        while part := connection.recv(1 << 16):
            received += part
            head, separator, body = received.partition(b"\r\n\r\n")
            sizes = [line.split(b":")[1] for line in head.lower().split(b"\r\n") if line.startswith(b"content-length:")]
            if separator and sizes and len(body) >= int(sizes[0]):
                return int(head.split()[1]), body
    return 0, received


@contextmanager
def listening(write: Callable[[Any], list[str]] = upper, **settings: Any) -> Iterator[Clients]:
    """settings: of `server`."""
    with listening_to({"new": writer(write)}, **settings) as port, contextlib.ExitStack() as stack:
        yield Clients(port, stack)


@contextmanager
def listening_to(
    models: Mapping[str, Served], origins: Mapping[str, Origin] | None = None, **settings: Any
) -> Iterator[int]:
    """The port of a server for these models."""
    made = server(application(models, TOKEN, origins=origins or {}), TOKEN, **settings)
    with socket.create_server(("127.0.0.1", 0)) as bound:
        thread = threading.Thread(target=made.run, args=([bound],), daemon=True)
        thread.start()
        while not made.started:
            time.sleep(0.01)
            assert thread.is_alive()
        try:
            yield bound.getsockname()[1]
        finally:
            made.should_exit = True
            thread.join(30)
    assert not thread.is_alive()
