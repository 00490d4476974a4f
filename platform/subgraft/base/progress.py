"""The form of the functions that long work calls as it proceeds."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

# Called with how much is done, the total (0: unknown), and the unit in words, such as `sentences`.
ProgressCallback: TypeAlias = Callable[[int, int, str], None]
# Called with the bytes received, and their total if it is known.
DownloadCallback: TypeAlias = Callable[[int, int | None], None]
