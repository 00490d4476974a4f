"""Regularises the embeddings of new tokens that are rare in the task's training text.

Adam normalises gradients, so scaling a gradient would not change the update. The update itself is scaled, after the
optimizer step. The L2 pull is decoupled from the gradient like AdamW's weight decay (Loshchilov and Hutter 2019,
algorithm 2), but towards the initial embedding instead of zero.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain

import numpy as np
import torch
from torch import Tensor
from transformers import PreTrainedModel

from subgraft.config.settings_base import SideName
from subgraft.config.training import RareTokenSettings
from subgraft.modeling.sides import tables_of
from subgraft.subwords.vocabulary.alignment import align, only_special_tokens
from subgraft.subwords.vocabulary.tokenizer import Tokenizer


@dataclass(frozen=True)
class RowUpdates:
    """Changes some rows of one parameter after each optimizer step, which has moved a row from E to E':

        E <- E + factor (E' - E) + min(1, learning_rate * l2_to_init) (start - E)

    Attributes:
        table: the parameter, embeddings [V, d] or a bias [V].
        rows: int64 [n], the regularised rows.
        factor: scale of every update.
        l2_to_init: fp32 [n], strength of the decay towards `start`.
        start: [n, d] or [n], the rows before the first step; a resumed training must pass the same.
    """

    table: Tensor
    rows: Tensor
    factor: float
    l2_to_init: Tensor
    start: Tensor

    @classmethod
    def of(cls, table: Tensor, rows: Tensor, factor: float, l2_to_init: Tensor) -> RowUpdates:
        """With the current rows of the parameter as `start`."""
        return cls(table, rows, factor, l2_to_init, table.detach()[rows].clone())

    def to(self, device: torch.device) -> RowUpdates:
        """With all tensors except the parameter, which moves with its model, on a device."""
        rows, l2_to_init, start = (each.to(device) for each in (self.rows, self.l2_to_init, self.start))
        return replace(self, rows=rows, l2_to_init=l2_to_init, start=start)

    def before(self) -> Tensor:
        """The current rows; pass them to `apply` after the optimizer step."""
        return self.table.detach()[self.rows]

    @torch.no_grad()
    def apply(self, before: Tensor, learning_rate: float) -> None:
        """Regularise the update, given the rows before it and the parameter's learning rate.

        With factor 1 and l2_to_init 0 the rows are not changed, to the bit.
        """
        after = self.before()
        if self.factor != 1.0:
            after = before + self.factor * (after - before)
        if self.l2_to_init.any():
            share = (learning_rate * self.l2_to_init).clamp(max=1.0).reshape(-1, *[1] * (before.ndim - 1))
            after += share * (self.start - before)
        self.table[self.rows] = after


Tokenizers = Mapping[SideName, Tokenizer]
PlaceOf = Callable[[Tensor, Tensor], tuple[Tensor, Tensor]]


def _itself(table: Tensor, tokens: Tensor) -> tuple[Tensor, Tensor]:
    return table, tokens


@dataclass(frozen=True)
class RareRows:
    """Each side's subwords with new rows, ids [n], and the count of each token in the text [V].

    A token is counted in the text of its side; with shared embeddings in both texts.
    """

    settings: RareTokenSettings
    new: Mapping[SideName, np.ndarray]
    counts: Mapping[SideName, np.ndarray]

    @classmethod
    def find(
        cls,
        settings: RareTokenSettings,
        sides: Sequence[SideName],
        copy_shared_tokens: bool,
        upstream: Tokenizers,
        own: Tokenizers,
        texts: Mapping[SideName, Iterable[str]],
    ) -> RareRows:
        """Find them by the vocabularies before (`upstream`) and after (`own`) the transfer, and the training text."""
        new = {side: _new_subwords(upstream[side], own[side], copy_shared_tokens) for side in sides}
        return cls(settings, new, {side: count_tokens(own[side], texts[side]) for side in sides})

    @property
    def sizes(self) -> dict[str, int]:
        """The number of new subwords of each side that are rare in its text."""
        return {side: int((self.counts[side][new] < self.settings.min_count).sum()) for side, new in self.new.items()}

    def updates(self, model: PreTrainedModel, place_of: PlaceOf = _itself) -> list[RowUpdates]:
        """The updates of rare rows of each embedding matrix, regularised towards their current values.

        `place_of` maps an embedding matrix and tokens to the trained parameter and its rows.
        """
        tables: dict[int, Tensor] = {}
        sides: dict[int, set[SideName]] = {}
        for side in self.new:
            for table in tables_of(model, [side]).values():
                tables[id(table)] = table
                sides.setdefault(id(table), set()).add(side)
        return [self._updates(table, sorted(sides[key]), place_of) for key, table in tables.items()]

    def _updates(self, table: Tensor, sides: Sequence[SideName], place_of: PlaceOf) -> RowUpdates:
        settings, new = self.settings, self.new[sides[0]]
        counts = np.sum([self.counts[side][new] for side in sides], axis=0)
        rare = counts < settings.min_count
        l2 = settings.l2_to_init * (1.0 - counts[rare] / settings.min_count)
        strength = torch.from_numpy(l2.astype(np.float32))
        parameter, rows = place_of(table, torch.from_numpy(new[rare]))
        return RowUpdates.of(parameter, rows, settings.learning_rate_factor, strength)


def count_tokens(tokenizer: Tokenizer, texts: Iterable[str]) -> np.ndarray:
    """The count of each token in the texts, int64 [V]."""
    counted = Counter(chain.from_iterable(tokenizer.encode_batch(list(texts))))
    return np.array([counted[token] for token in range(len(tokenizer))], dtype=np.int64)


def _new_subwords(upstream: Tokenizer, own: Tokenizer, copy_shared_tokens: bool) -> np.ndarray:
    alignment = align(upstream, own)
    return np.array((alignment if copy_shared_tokens else only_special_tokens(alignment, own)).unseen, dtype=np.int64)
