"""Which tokens of an output are right: its TER alignment with the reference (Snover et al. 2006).

The search for shifts is sacrebleu's. It has no public name that says which token ended where, so tokens carry their
places, and it is given edit distances that are a machine word's work per token instead of a table's.
"""

from __future__ import annotations

from collections.abc import Sequence

from sacrebleu.metrics import lib_ter


class _Placed(int):
    """A token id that knows where in the output it stood; equal and hashed as the id."""

    place: int


class _Edits:
    """A pair of edit distance and trace. The search reads one trace in hundreds, so it is made when it is asked for."""

    def __init__(self, distances: _Distances, tokens: list[_Placed]) -> None:
        self._distances = distances
        self._tokens = tokens

    def __getitem__(self, index: int) -> int | str:
        if index > 1:
            raise IndexError(index)
        return self._distances.trace(self._tokens) if index else self._distances.distance(self._tokens)


class _Distances:
    """Edit distances from outputs to one reference."""

    def __init__(self, reference: list[int]) -> None:
        self._reference = reference
        self._table = lib_ter.BeamEditDistance(reference)
        self._places: dict[int, int] = {}
        for place, token in enumerate(reference):
            self._places[token] = self._places.get(token, 0) | 1 << place

    def __call__(self, tokens: list[_Placed]) -> _Edits:
        return _Edits(self, tokens)

    def trace(self, tokens: list[_Placed]) -> str:
        edits: str = self._table(tokens)[1]
        return edits

    def distance(self, tokens: Sequence[int]) -> int:
        """Levenshtein's distance, a column of the table at a time in two integers (Myers 1999; Hyyrö 2003)."""
        height = len(self._reference)
        mask, last = (1 << height) - 1, 1 << height >> 1
        rising, falling, distance = mask, 0, height
        for token in tokens:
            equal = self._places.get(token, 0)
            vertical = equal | falling
            horizontal = (((equal & rising) + rising) ^ rising) | equal
            up, down = falling | ~(horizontal | rising), rising & horizontal
            distance += bool(up & last) - bool(down & last)
            up, down = up << 1 | 1, down << 1
            rising, falling = (down | ~(vertical | up)) & mask, up & vertical & mask
        return distance


def correct_tokens(output: Sequence[int], reference: Sequence[int]) -> list[bool]:
    """For each token of the output, whether it is aligned with an equal token of the reference, shifts undone."""
    if not reference:
        return [False] * len(output)
    wanted, tokens = list(reference), [_Placed(token) for token in output]
    for place, token in enumerate(tokens):
        token.place = place
    distances, tried = _Distances(wanted), 0
    while True:
        gain, shifted, tried = lib_ter._shift(tokens, wanted, distances, tried)
        if gain <= 0 or tried >= lib_ter._MAX_SHIFT_CANDIDATES:
            break
        tokens = shifted
    # The trace rewrites the output into the reference; an alignment is read from the other direction.
    _, _, wrong = lib_ter.trace_to_alignment(lib_ter._flip_trace(distances.trace(tokens)))
    labels = [False] * len(tokens)
    for token, error in zip(tokens, wrong, strict=True):
        labels[token.place] = not error
    return labels
