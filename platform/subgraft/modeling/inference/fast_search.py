"""`Translator` and `Continuer` with CTranslate2's search instead of transformers', and the same outputs.

CTranslate2 has no limit in bytes, which transformers applies in every step of a beam search. So sentences with a
hypothesis that does not end within the limit are searched again by transformers. Greedy outputs are the same up to the
limit, so they all come from CTranslate2.
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
    """A `Translator` that searches with CTranslate2.

    search: the exported model with the same settings.

    Attributes:
        again: The number of sentences of the last call that transformers searched again; `seconds` excludes them.
        completes: Whether these sentences are searched again; otherwise they are empty, as in measurements of speed.
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
        outputs = [None if row is None else [start, *row] for row in self._search_by.settled(sources, texts)]

        def again(places: list[int]) -> Tensor:
            chosen = torch.tensor(places, device=input_ids.device)
            generate = super(FastTranslator, self)._generate
            return generate(input_ids[chosen], attention_mask[chosen], [texts[place] for place in places])

        rows, repeated, seconds = _completed(outputs, again if self.completes else None, self._target.special["pad"])
        self.again += repeated
        self.seconds -= seconds
        return rows.to(input_ids.device)

    def _begin(self) -> None:
        super()._begin()
        self.again = 0


class FastContinuer(Continuer):
    """A `Continuer` that searches with CTranslate2."""

    def __init__(self, search: ExportedContinuer, *model: Any, **settings: Any) -> None:
        super().__init__(*model, **settings)
        self._search_by = search
        self.again = 0
        self.completes = True

    def _generate(self, prompt_ids: Sequence[list[int]], prompts: Sequence[str]) -> Tensor:
        outputs = self._search_by.settled(prompt_ids, prompts)

        def again(places: list[int]) -> Tensor:
            generate = super(FastContinuer, self)._generate
            return generate([prompt_ids[place] for place in places], [prompts[place] for place in places])

        rows, repeated, seconds = _completed(outputs, again if self.completes else None, self._padding)
        self.again += repeated
        self.seconds -= seconds
        return rows

    def _begin(self) -> None:
        super()._begin()
        self.again = 0


def _completed(
    outputs: Sequence[Sequence[int] | None], again: Callable[[list[int]], Tensor] | None, padding: int
) -> tuple[Tensor, int, float]:
    """All outputs [B, T], padded; the number of missing ones, and the seconds that these took.

    Args:
        outputs: The outputs so far; None where missing.
        again: Computes the outputs [b, T] of the missing indices; None leaves them empty.
        padding: The padding id.
    """
    started = time.perf_counter()
    missing = [place for place, row in enumerate(outputs) if row is None]
    rows = [list(row or ()) for row in outputs]
    if missing and again is not None:
        for place, row in zip(missing, again(missing).tolist(), strict=True):
            rows[place] = row
    seconds = time.perf_counter() - started
    longest = max(1, *map(len, rows))
    padded = torch.tensor([row + [padding] * (longest - len(row)) for row in rows], dtype=torch.long)
    return padded, len(missing), seconds
