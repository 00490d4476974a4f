"""`Translator` and `Continuer` with CTranslate2's search in place of transformers', and the same outputs.

CTranslate2 knows no limit in bytes, which transformers minds in every step of a beam search. So sentences of which not
all hypotheses end by themselves are left to transformers. Greedy outputs are the same up to the limit: they all come
from CTranslate2.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from subgraft.modeling.inference.continue_text import Continuer
from subgraft.modeling.inference.ctranslate2_search import ExportedContinuer, ExportedTranslator
from subgraft.modeling.inference.translate import Translator


class FastTranslator(Translator):
    """search: of the same model, with the same settings.  again: how many sentences of the last call were left to
    transformers; `seconds` are without that.  completes: whether they are; else they are empty, as speed alone has it.
    """

    def __init__(self, search: ExportedTranslator, *model: Any, **settings: Any) -> None:
        super().__init__(*model, **settings)
        self._search_by = search
        self.again = 0
        self.completes = True

    def _generate(self, input_ids: Tensor, attention_mask: Tensor, texts: Sequence[str]) -> Tensor:
        lengths = attention_mask.sum(1).tolist()
        sources = [row[:length] for row, length in zip(input_ids.tolist(), lengths, strict=True)]
        start = self._sequence_format.start
        found = [None if row is None else [start, *row] for row in self._search_by.settled(sources, texts)]

        def again(places: list[int]) -> Tensor:
            chosen = torch.tensor(places, device=input_ids.device)
            generate = super(FastTranslator, self)._generate
            return generate(input_ids[chosen], attention_mask[chosen], [texts[place] for place in places])

        rows, repeated, seconds = _completed(found, again if self.completes else None, self._target.special["pad"])
        self.again += repeated
        self.seconds -= seconds
        return rows.to(input_ids.device)

    def _begin(self) -> None:
        super()._begin()
        self.again = 0


class FastContinuer(Continuer):
    """The same of texts that go on."""

    def __init__(self, search: ExportedContinuer, *model: Any, **settings: Any) -> None:
        super().__init__(*model, **settings)
        self._search_by = search
        self.again = 0
        self.completes = True

    def _generate(self, given: Sequence[list[int]], prompts: Sequence[str]) -> Tensor:
        found = self._search_by.settled(given, prompts)

        def again(places: list[int]) -> Tensor:
            generate = super(FastContinuer, self)._generate
            return generate([given[place] for place in places], [prompts[place] for place in places])

        rows, repeated, seconds = _completed(found, again if self.completes else None, self._padding)
        self.again += repeated
        self.seconds -= seconds
        return rows

    def _begin(self) -> None:
        super()._begin()
        self.again = 0


def _completed(
    found: Sequence[Sequence[int] | None], again: Callable[[list[int]], Tensor] | None, padding: int
) -> tuple[Tensor, int, float]:
    """All outputs, padded [B, T]; of how many there were none yet, and the seconds that these took.

    again: outputs [b, T] of the places that it is given; None: there are to be none.
    """
    started = time.perf_counter()
    missing = [place for place, row in enumerate(found) if row is None]
    rows = [list(row or ()) for row in found]
    if missing and again is not None:
        for place, row in zip(missing, again(missing).tolist(), strict=True):
            rows[place] = row
    seconds = time.perf_counter() - started
    longest = max(1, *map(len, rows))
    padded = torch.tensor([row + [padding] * (longest - len(row)) for row in rows], dtype=torch.long)
    return padded, len(missing), seconds
