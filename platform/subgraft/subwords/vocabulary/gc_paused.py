"""Large vocabularies are read without Python's collector of cycles, which would look at every piece again and again."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def uncollected() -> Iterator[None]:
    """Around the making of hundreds of thousands of objects, none of which is garbage: half the time otherwise.

    Of several threads inside, the one that turned the collector off turns it on again.
    """
    on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if on:
            gc.enable()
