"""Clients that hold connections without asking anything, and others that leave: a client with the token is answered."""

from __future__ import annotations

import socket

import pytest

from clients import HALF, TOKEN, answer, listening, request


def closed(connection: socket.socket) -> bool:
    return answer(connection) == (0, b"")


def test_half_sent_headers_do_not_shut_out_a_client_with_the_token() -> None:
    """No deadline helps here: each new connection takes the place of the oldest without the token."""
    with listening(headers=600.0, unauthenticated=8) as clients:
        known = clients.connect(request("first"))
        assert answer(known)[0] == 200
        held = [clients.connect(HALF if number % 2 else b"") for number in range(150)]
        assert clients.ask("thank")[0] == 200
        assert all(closed(connection) for connection in held[:-8])
        known.sendall(request("second"))
        assert answer(known)[0] == 200  # it has shown the token, and is none of those


@pytest.mark.parametrize(
    "sent",
    [
        b"",
        HALF,
        request("first") + HALF,
        request("first", "another").replace(b"Content-Length: ", b"Content-Length: 9") + b"x",
        b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n" + b"GET",
    ],
)
def test_headers_have_a_deadline_each_time(sent: bytes) -> None:
    """The client goes on sending, a byte at a time, and reads until it is cut off."""
    with listening(headers=0.3) as clients:
        connection = clients.connect(sent)
        connection.settimeout(0.05)
        cut_off = False
        while not cut_off:
            try:
                cut_off = not connection.recv(1 << 16)
                connection.sendall(b"a")
            except TimeoutError:
                connection.sendall(b"a")
            except ConnectionError:
                cut_off = True
        assert clients.ask("thank")[0] == 200


def test_an_answer_may_take_longer_than_headers() -> None:
    import time

    def write(texts: list[str]) -> list[str]:
        time.sleep(0.6)
        return texts

    with listening(write, headers=0.2) as clients:
        connection = clients.connect(request("slow")[:-3])
        time.sleep(0.4)
        connection.sendall(request("slow")[-3:])
        assert answer(connection)[0] == 200


def test_a_client_that_leaves_is_not_reported(capfd: pytest.CaptureFixture[str]) -> None:
    with listening() as clients:
        for end in (-1, -5, -20):
            for _ in range(5):
                clients.connect(request("thank")[:end]).close()
        clients.connect(request("thank")).close()
        clients.connect(b"no HTTP\r\n\r\n").close()
        assert clients.ask("thank", TOKEN)[0] == 200
    assert capfd.readouterr().err == ""
