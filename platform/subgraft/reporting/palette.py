"""One colour per row, the same in every plot, and distinguishable without full colour vision."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

BASELINE_COLOUR = "#7a7f87"

# Okabe and Ito (2008), without black (text) and yellow (too pale on white).
_COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9")
_LINES = ("-", "--", ":", "-.")


@dataclass(frozen=True)
class Look:
    """How a row is drawn: its colour, and a line style that tells apart rows of one colour."""

    colour: str
    line: str


def looks(names: Sequence[str], baseline: str | None) -> dict[str, Look]:
    """A look per row, in order; the baseline is grey."""
    others = [name for name in names if name != baseline]
    chosen = {
        name: Look(_COLOURS[index % len(_COLOURS)], _LINES[index // len(_COLOURS) % len(_LINES)])
        for index, name in enumerate(others)
    }
    if baseline in names and baseline is not None:
        chosen[baseline] = Look(BASELINE_COLOUR, "-")
    return {name: chosen[name] for name in names}
