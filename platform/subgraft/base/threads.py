"""The number of threads that a process may compute with, which a step's worker gets by its environment."""

from __future__ import annotations

import os


def allowed_threads() -> int:
    """The number of threads of tokenizers; all cores if RAYON_NUM_THREADS is not set."""
    setting = os.environ.get("RAYON_NUM_THREADS", "")
    return int(setting) if setting.isdecimal() and int(setting) else os.cpu_count() or 1
