"""The record of an allocation, stored next to its vocabulary."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from subgraft.base import json_io
from subgraft.base.errors import UserError

RECORD = "allocation.json"


@dataclass(frozen=True)
class Allocated:
    """What was chosen.

    total: that was allowed.  size: of the vocabulary as it is written.  shares: q, how often each language is drawn.
    sizes: ordinary pieces of each language; the union counts what they share once.  alp: of each language by its own
    pieces alone.  value: Σ q^β ALP by these.  bound: no choice of sizes has more.
    """

    total: int
    size: int
    language_exponent: float
    capacity_exponent: float
    shares: dict[str, float]
    sizes: dict[str, int]
    alp: dict[str, float]
    value: float
    bound: float

    @classmethod
    def read(cls, directory: Path) -> Allocated:
        """Raises UserError where there is none."""
        try:
            record: dict[str, Any] = json_io.parse_object((directory / RECORD).read_bytes())
            return cls(**record)
        except (OSError, ValueError, TypeError):
            raise UserError(f"contains no readable {RECORD}", where=str(directory)) from None

    def write(self, directory: Path) -> None:
        (directory / RECORD).write_text(json.dumps(asdict(self), indent=1) + "\n", encoding="utf-8")
