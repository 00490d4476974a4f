"""`Translator` and `Continuer` with CTranslate2's search instead of transformers', and the same outputs.

CTranslate2 has no limit in bytes, which transformers applies in every step of a beam search. So sentences with a
hypothesis that does not end within the limit are searched again by transformers. Greedy outputs are the same up to the
limit, so they all come from CTranslate2.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

from torch import Tensor

from subgraft.modeling.inference.continue_text import Continuer
from subgraft.modeling.inference.ctranslate2_search import ExportedContinuer, ExportedTranslator
from subgraft.modeling.inference.search import BatchSearch
from subgraft.modeling.inference.translate import Translator


class FastSearch(BatchSearch):
    """A search with CTranslate2, before one with transformers for what remains.

    search: the exported model with the same settings.

    Attributes:
        again: The number of sequences of the last call that transformers searched again; `seconds` excludes them.
        completes: Whether these sequences are searched again; otherwise they are empty, as in measurements of speed.
    """

    def __init__(self, search: ExportedTranslator | ExportedContinuer, *model: Any, **settings: Any) -> None:
        super().__init__(*model, **settings)
        self._search_by = search
        self.again = 0
        self.completes = True

    def _generate(self, sequences: Sequence[list[int]], texts: Sequence[str]) -> Tensor:
        outputs = self._search_by.settled(sequences, texts)
        started = time.perf_counter()
        missing = [place for place, row in enumerate(outputs) if row is None]
        rows = [row or [] for row in outputs]
        if missing and self.completes:
            written = super()._generate([sequences[place] for place in missing], [texts[place] for place in missing])
            for place, row in zip(missing, written.tolist(), strict=True):
                rows[place] = row
        self.again += len(missing)
        self.seconds -= time.perf_counter() - started
        return self._padded(rows, self._padding)[0]

    def _begin(self) -> None:
        super()._begin()
        self.again = 0


class FastTranslator(FastSearch, Translator):
    """A `Translator` that searches with CTranslate2."""


class FastContinuer(FastSearch, Continuer):
    """A `Continuer` that searches with CTranslate2."""
