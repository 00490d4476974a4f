"""Segments strings into a given number of upstream tokens, as a vocabulary without longer tokens would."""

from __future__ import annotations

import math
from functools import lru_cache

from subgraft.subwords.vocabulary.entry import Entry, Mark
from subgraft.subwords.vocabulary.tokenizer import Tokenizer

MOST_PIECES = 12
ENTRIES_KEPT = 1 << 16
_Edge = tuple[float, int]  # cost and id of a piece


class CheapestCuts:
    """The cheapest segmentation of an entry into 1, 2, … ordinary tokens.

    The cost of a token is the logarithm of its rank by commonness. By Zipf's law that is its negative log-probability
    up to a constant, so it also applies to vocabularies without probabilities.
    """

    def __init__(self, tokenizer: Tokenizer) -> None:
        edges = {entry: (math.log(2 + int(tokenizer.commonness[i])), i) for entry, i in tokenizer.ids.items()}
        self._initial = {entry.surface: edge for entry, edge in edges.items() if entry.word_initial}
        self._inside = {entry.surface: edge for entry, edge in edges.items() if not entry.word_initial}
        self._longest = max((len(entry.surface) for entry in edges), default=0)
        self._bare_mark = None
        if tokenizer.mark is not Mark.WORDPIECE and tokenizer.mark.value in tokenizer.pieces:
            bare = tokenizer.pieces.index(tokenizer.mark.value)
            self._bare_mark = math.log(2 + int(tokenizer.commonness[bare]))
        self.of = lru_cache(maxsize=ENTRIES_KEPT)(self._of)

    def _of(self, entry: Entry) -> tuple[tuple[int, ...] | None, ...]:
        """The segmentation into n tokens at index n, up to MAX_PIECES; None if there is none.

        The entry itself is no segmentation. A word may start with a bare boundary mark and a continuation token; the
        mark is neither counted nor returned.
        """
        size = len(entry.surface)
        # For each end and number of tokens: cost, start of the last token, its id.
        best: list[dict[int, tuple[float, int, int]]] = [{0: (0.0, 0, -1)}, *({} for _ in range(size))]
        for end in range(1, size + 1):
            for start in range(max(0, end - self._longest), end):
                edge = self._edge(entry, start, end)
                if edge is None:
                    continue
                for count, (cost, _, _) in best[start].items():
                    found = cost + edge[0]
                    if count < MOST_PIECES and found < best[end].get(count + 1, (math.inf,))[0]:
                        best[end][count + 1] = (found, start, edge[1])
        return (None, *(_traced(best, n) for n in range(1, MOST_PIECES + 1)))

    def _edge(self, entry: Entry, start: int, end: int) -> _Edge | None:
        surface = entry.surface[start:end]
        whole = end - start == len(entry.surface)
        if start or not entry.word_initial:
            return None if whole else self._inside.get(surface)
        choices = [] if whole else [self._initial.get(surface)]
        if self._bare_mark is not None and (inside := self._inside.get(surface)):
            choices.append((inside[0] + self._bare_mark, inside[1]))
        return min((edge for edge in choices if edge), default=None)


def _traced(best: list[dict[int, tuple[float, int, int]]], count: int) -> tuple[int, ...] | None:
    """The tokens of the cheapest segmentation into `count` tokens."""
    end, ids = len(best) - 1, []
    if count not in best[end]:
        return None
    for n in range(count, 0, -1):
        _, end, token = best[end][n]
        ids.append(token)
    return tuple(reversed(ids))
