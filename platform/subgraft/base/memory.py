"""Memory of models that are no longer used."""

from __future__ import annotations

import ctypes
import gc
import sys


def return_freed_memory() -> None:
    """Return freed memory to the system.

    glibc keeps freed matrices of up to 32 MB in its heap: 4 GB after a few updates of 135 million parameters.
    """
    gc.collect()
    torch = sys.modules.get("torch")
    if torch is not None and torch.cuda.is_available():
        torch.cuda.empty_cache()
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is not None:
        trim(0)
