"""Gives the embeddings of new tokens a learning rate of their own, and regularises those of rare tokens.

Adam normalises gradients, so scaling a gradient would not change the update. Therefore the update itself is scaled,
after the optimizer step. L2 regularisation is decoupled from the gradient, as AdamW's weight decay is (Loshchilov and
Hutter 2019, algorithm 2), but it pulls towards the initial embedding instead of zero.
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
        factor: fp32 [n], scale of the updates of each row.
        l2_to_init: fp32 [n], strength of the decay towards `start`.
        start: [n, d] or [n], the rows before the first step; a resumed training must pass the same.
    """

    table: Tensor
    rows: Tensor
    factor: Tensor
    l2_to_init: Tensor
    start: Tensor

    @classmethod
    def of(cls, table: Tensor, rows: Tensor, factor: Tensor, l2_to_init: Tensor) -> RowUpdates:
        """Updates that use the current rows of the parameter as `start`."""
        return cls(table, rows, factor, l2_to_init, table.detach()[rows].clone())

    def to(self, device: torch.device) -> RowUpdates:
        """A copy with all tensors on a device, except the parameter, which its model moves."""
        names = ("rows", "factor", "l2_to_init", "start")
        return replace(self, **{name: getattr(self, name).to(device) for name in names})

    def current_rows(self) -> Tensor:
        """The current rows; pass them to `apply` after the optimizer step."""
        return self.table.detach()[self.rows]

    @torch.no_grad()
    def apply(self, current_rows: Tensor, learning_rate: float) -> None:
        """Regularise the update, given the rows before it and the parameter's learning rate.

        With factor 1 and l2_to_init 0 the rows are not changed, to the bit.
        """
        after, per_row = self.current_rows(), (-1, *[1] * (current_rows.ndim - 1))
        if (self.factor != 1.0).any():
            scaled = current_rows + self.factor.reshape(per_row) * (after - current_rows)
            after = torch.where((self.factor != 1.0).reshape(per_row), scaled, after)
        if self.l2_to_init.any():
            share = (learning_rate * self.l2_to_init).clamp(max=1.0).reshape(per_row)
            after += share * (self.start - current_rows)
        self.table[self.rows] = after


Tokenizers = Mapping[SideName, Tokenizer]
LocateRows = Callable[[Tensor, Tensor], tuple[Tensor, Tensor]]


def _same_rows(table: Tensor, tokens: Tensor) -> tuple[Tensor, Tensor]:
    return table, tokens


@dataclass(frozen=True)
class RareRows:
    """The new subwords of each side, ids [n], and the count of each token in training text [V].

    A token is counted in the text of its side, or in both texts if the sides share embeddings. factor: the scale of the
    updates of all new subwords.
    """

    settings: RareTokenSettings
    factor: float
    new: Mapping[SideName, np.ndarray]
    counts: Mapping[SideName, np.ndarray]

    @classmethod
    def find(
        cls,
        settings: RareTokenSettings | None,
        factor: float,
        sides: Sequence[SideName],
        copy_shared_tokens: bool,
        upstream: Tokenizers,
        own: Tokenizers,
        texts: Mapping[SideName, Iterable[str]],
    ) -> RareRows:
        """Compare the vocabularies before (`upstream`) and after (`own`) a transfer, and count tokens in training text.

        Args:
            settings: the regularisation of rare subwords, if any.
            factor: the scale of the updates of all new subwords.
            sides: the sides with new rows.
            copy_shared_tokens: whether tokens of both vocabularies were copied, and so are not new.
            upstream: the tokenizers before the transfer.
            own: the tokenizers after it.
            texts: the training text of each side.
        """
        new: dict[SideName, np.ndarray] = {}
        for side in sides:
            alignment = align(upstream[side], own[side])
            if not copy_shared_tokens:
                alignment = only_special_tokens(alignment, own[side])
            new[side] = np.array(alignment.unseen, dtype=np.int64)
        settings = settings or RareTokenSettings()
        return cls(settings, factor, new, {side: count_tokens(own[side], texts[side]) for side in sides})

    @property
    def sizes(self) -> dict[str, int]:
        """The number of new subwords of each side that are rare in its text."""
        return {side: int((self.counts[side][new] < self.settings.min_count).sum()) for side, new in self.new.items()}

    def updates(self, model: PreTrainedModel, locate_rows: LocateRows = _same_rows) -> list[RowUpdates]:
        """The updates of the rare rows of each embedding matrix, regularised towards their current values.

        locate_rows: maps an embedding matrix and tokens to the trained parameter and its rows.
        """
        tables: dict[int, Tensor] = {}
        sides: dict[int, set[SideName]] = {}
        for side in self.new:
            for table in tables_of(model, [side]).values():
                tables[id(table)] = table
                sides.setdefault(id(table), set()).add(side)
        return [self._updates(table, sorted(sides[key]), locate_rows) for key, table in tables.items()]

    def _updates(self, table: Tensor, sides: Sequence[SideName], locate_rows: LocateRows) -> RowUpdates:
        settings, new = self.settings, self.new[sides[0]]
        counts = np.sum([self.counts[side][new] for side in sides], axis=0)
        rare = counts < settings.min_count
        changed = rare if self.factor == 1.0 else np.ones_like(rare)
        l2 = settings.l2_to_init * (1.0 - counts[changed] / settings.min_count).clip(min=0.0)
        factor = self.factor * np.where(rare, settings.learning_rate_factor, 1.0)[changed]
        parameter, rows = locate_rows(table, torch.from_numpy(new[changed]))
        factors, strength = (torch.from_numpy(each.astype(np.float32)) for each in (factor, l2))
        return RowUpdates.of(parameter, rows, factors, strength)


def count_tokens(tokenizer: Tokenizer, texts: Iterable[str]) -> np.ndarray:
    """The count of each token in the texts, int64 [V]."""
    counted = Counter(chain.from_iterable(tokenizer.encode_batch(list(texts))))
    return np.array([counted[token] for token in range(len(tokenizer))], dtype=np.int64)
