"""How many threads a process may compute with, as a step's worker is told by its environment."""

from __future__ import annotations

import os


def allowed_threads() -> int:
    """As many as tokenizers may have here; all cores, where nothing is said."""
    told = os.environ.get("RAYON_NUM_THREADS", "")
    return int(told) if told.isdecimal() and int(told) else os.cpu_count() or 1
