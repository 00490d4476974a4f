"""Random choices, as a function of a seed alone."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from random import Random
from typing import TypeVar

Item = TypeVar("Item")


class Draw:
    """Draws for one run of sentences. held_out: whether compounds kept from training may occur, and then often do."""

    def __init__(self, name: str, held_out: bool) -> None:
        # Seeding by text goes through SHA-512: the same on every machine.
        self._uniform: Callable[[], float] = Random(name).random
        self.held_out = held_out

    def choose(self, items: Sequence[Item]) -> Item:
        """One of them, each as likely as the others."""
        return items[int(self._uniform() * len(items))]

    def chance(self, probability: float) -> bool:
        """True with this probability."""
        return self._uniform() < probability

    def number(self, low: int, high: int) -> int:
        """A whole number from low to high, both included."""
        return low + int(self._uniform() * (high - low + 1))


def weighted(*entries: tuple[int, Item]) -> tuple[Item, ...]:
    """Items repeated by weight, for Draw.choose."""
    return tuple(item for weight, item in entries for _ in range(weight))
