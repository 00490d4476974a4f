"""Freed memory returns to the system."""

from __future__ import annotations

import ctypes
from pathlib import Path

import pytest

from subgraft.base.memory import return_freed_memory

MIB = 2**20


def resident() -> int:
    """This process's memory in bytes."""
    pages = Path("/proc/self/statm").read_text(encoding="ascii").split()[1]
    return int(pages) * 4096


@pytest.mark.skipif(not hasattr(ctypes.CDLL(None), "malloc_trim"), reason="glibc alone keeps freed memory in its heap")
def test_freed_blocks_below_one_in_use_return_to_the_system() -> None:
    """The heap shrinks by itself only from its end, which the last block holds."""
    return_freed_memory()
    before = resident()
    blocks = [bytearray(b"x" * 100_000) for _ in range(3000)]
    held = blocks[-1]
    assert resident() - before > 250 * MIB
    del blocks
    return_freed_memory()
    assert resident() - before < 50 * MIB
    assert len(held) == 100_000
