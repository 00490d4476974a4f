"""New rows of a transferred model that are rare in the task's training text, and how they are trained."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain

import numpy as np
import torch
from torch import Tensor
from transformers import PreTrainedModel

from subgraft.config.settings_base import SideName
from subgraft.config.training import RareTokenSettings
from subgraft.modeling.sides import tables_of
from subgraft.pipeline.recipes.training import NewRows
from subgraft.subwords.vocabulary.alignment import align, special_alone
from subgraft.subwords.vocabulary.tokenizer import Tokenizer
from subgraft.training.row_regularization import RowUpdates

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
        rows: NewRows,
        upstream: Tokenizers,
        own: Tokenizers,
        texts: Mapping[SideName, Iterable[str]],
    ) -> RareRows:
        """Find them by the vocabularies before (`upstream`) and after (`own`) the transfer, and the training text."""
        new = {side: _new_subwords(upstream[side], own[side], rows.copy_shared_tokens) for side in rows.sides}
        return cls(settings, new, {side: count_tokens(own[side], texts[side]) for side in rows.sides})

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
    return np.array((alignment if copy_shared_tokens else special_alone(alignment, own)).unseen, dtype=np.int64)
