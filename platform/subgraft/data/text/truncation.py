"""Truncation of two texts that are too long together."""

from __future__ import annotations


def longest_first(first: int, second: int, room: int) -> tuple[int, int]:
    """Truncated lengths of two texts that fit into `room` together: the longer one loses tokens first, then both."""
    if first + second <= room:
        return first, second
    short, long = sorted((first, second))
    long = max(short, room - short)
    if short + long > room:
        short = room // 2
        long = short + room % 2
    return (long, short) if first > second else (short, long)
