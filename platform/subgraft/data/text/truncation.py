"""Two texts that are too long together."""

from __future__ import annotations


def longest_first(first: int, second: int, room: int) -> tuple[int, int]:
    """The lengths of two texts that together have room: tokens are taken from the longer one, then from both."""
    if first + second <= room:
        return first, second
    short, long = sorted((first, second))
    long = max(short, room - short)
    if short + long > room:
        short = room // 2
        long = short + room % 2
    return (long, short) if first > second else (short, long)
