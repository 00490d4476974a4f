"""The piece counts of a text at every size of a BPE vocabulary, from one training.

Encoding by a vocabulary that has one merge more goes on from where encoding without it ends: whoever always makes the
best-ranked merge there is makes the last one when no other is left. So the counts at the largest size hold all others:
taken back in reverse, each piece is replaced by what its own characters are cut into without it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise


def merges_of(pieces: Mapping[str, float]) -> tuple[list[str], list[str]]:
    """Pieces that join others, in the order in which they were learnt, and single characters.

    pieces: the ordinary ones of a model, with their scores.
    """
    ranked = sorted((piece for piece in pieces if len(piece) > 1), key=lambda piece: -pieces[piece])
    return ranked, [piece for piece in pieces if len(piece) == 1]


def replay(merges: Sequence[str], counts: Mapping[str, int], keep: Sequence[int]) -> dict[int, dict[str, int]]:
    """How often the text has each piece that it uses, by how many of the first merges are kept.

    counts: of the text's tokens under all of the merges; what no merge made is left as it is.  keep: numbers of merges,
    in any order.
    """
    ranks = {piece: rank for rank, piece in enumerate(merges)}
    left = {piece: int(count) for piece, count in counts.items() if count}
    wanted, found = set(keep), dict[int, dict[str, int]]()
    for kept in range(len(merges), -1, -1):
        if kept in wanted:
            found[kept] = dict(left)
        if kept and (count := left.pop(merges[kept - 1], 0)):
            for part in _parts(merges[kept - 1], ranks, kept - 1):
                left[part] = left.get(part, 0) + count
    return found


def _parts(piece: str, ranks: Mapping[str, int], rank: int) -> Sequence[str]:
    """What a piece is cut into without its own merge, which is of this rank.

    A text that has the piece has it by that merge, which joined two parts. Mostly there is one place where two can
    meet, and so no need to begin from characters.
    """
    last = len(piece) - 1
    places = [
        place
        for place in range(1, last + 1)
        if (place == 1 or ranks.get(piece[:place], rank) < rank)
        and (place == last or ranks.get(piece[place:], rank) < rank)
    ]
    return (piece[: places[0]], piece[places[0] :]) if len(places) == 1 else cut(piece, ranks, rank)


def cut(text: str, ranks: Mapping[str, int], most: int) -> list[str]:
    """What the merges of a rank below `most` make of a text: always the best-ranked one, the leftmost of equals."""
    parts = list(text)
    joined = [ranks.get(left + right, most) for left, right in pairwise(parts)]
    while joined and (best := min(joined)) < most:
        at = joined.index(best)
        parts[at : at + 2] = [parts[at] + parts[at + 1]]
        del joined[at]
        if at > 0:
            joined[at - 1] = ranks.get(parts[at - 1] + parts[at], most)
        if at < len(joined):
            joined[at] = ranks.get(parts[at] + parts[at + 1], most)
    return parts
