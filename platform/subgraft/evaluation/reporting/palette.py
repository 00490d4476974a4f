"""How a system is drawn: the same in every plot, and distinguishable without full colour vision.

Up to six systems have a colour and a mark of their own. Of more, some are highlighted and all others are one pale grey:
beyond six, neither colours nor line styles can be told apart, and labels say what is what.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

BASELINE_COLOUR = "#4b5058"
OTHER_COLOUR = "#b4bac3"

# Okabe and Ito (2008), without black (text) and yellow (too pale on white).
_COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9")
_MARKERS = ("o", "s", "^", "D", "v", "P")
MOST_COLOURED = len(_COLOURS)


@dataclass(frozen=True)
class Look:
    """How a system is drawn: its colour, its mark, and whether it stands out and is labelled."""

    colour: str
    marker: str
    stands_out: bool


def looks(names: Sequence[str], baseline: str | None, highlighted: Collection[str] = ()) -> dict[str, Look]:
    """A look per system, in order. The baseline is dark grey.

    highlighted: which of more than six others have a colour; six of them at most.
    """
    others = [name for name in names if name != baseline]
    coloured = others if len(others) <= MOST_COLOURED else [name for name in others if name in highlighted]
    own = {name: Look(colour, marker, True) for name, colour, marker in zip(coloured, _COLOURS, _MARKERS, strict=False)}
    plain, grey = Look(OTHER_COLOUR, "o", False), Look(BASELINE_COLOUR, "X", True)
    return {name: grey if name == baseline else own.get(name, plain) for name in names}
