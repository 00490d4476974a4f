"""What processes listen on, and whether it answers from elsewhere."""

from __future__ import annotations

import socket
from collections.abc import Iterable
from contextlib import suppress

import psutil


def listening(root: psutil.Process) -> set[tuple[str, int]]:
    """Addresses and ports that a process and all below it listen on, by TCP or UDP."""
    result = set()
    for process in (root, *root.children(recursive=True)):
        with suppress(psutil.Error):
            for one in process.net_connections(kind="inet"):
                if one.status == psutil.CONN_LISTEN or (one.type == socket.SOCK_DGRAM and not one.raddr):
                    result.add((one.laddr.ip, one.laddr.port))
    return result


def other_addresses() -> list[str]:
    """IPv4 addresses of this machine that are not 127.0.0.1: what listens on every address answers there."""
    cards = psutil.net_if_addrs().values()
    results = {card.address for cards_of_one in cards for card in cards_of_one if card.family == socket.AF_INET}
    return ["127.0.0.2", *sorted(results - {"127.0.0.1"})]  # Linux has all of 127/8, on any machine


def answering_elsewhere(sockets: Iterable[tuple[str, int]]) -> list[str]:
    """Those that take a connection at another address of this machine, as host:port."""
    results = []
    for _, port in sockets:
        for address in other_addresses():
            with suppress(OSError), socket.create_connection((address, port), timeout=2):
                results.append(f"{address}:{port}")
    return results
