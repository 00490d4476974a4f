"""Servers on this machine that send any bytes at any speed: what no library of servers would send."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress

# Bytes, and the seconds before them.
Pieces = Iterable[tuple[float, bytes]]


@contextmanager
def raw_server(pieces: Pieces) -> Iterator[str]:
    """The address of a server that answers every request with the same pieces, and hangs up after them."""
    listener = socket.create_server(("127.0.0.1", 0))
    over = threading.Event()

    def answer(connection: socket.socket) -> None:
        with connection, suppress(OSError):
            connection.recv(65536)
            for seconds, content in pieces:
                time.sleep(seconds)
                if over.is_set():
                    return
                connection.sendall(content)

    def accept() -> None:
        with suppress(OSError):
            while True:
                threading.Thread(target=answer, args=(listener.accept()[0],), daemon=True).start()

    threading.Thread(target=accept, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{listener.getsockname()[1]}/file"
    finally:
        over.set()
        with suppress(OSError):
            listener.shutdown(socket.SHUT_RDWR)
        listener.close()
