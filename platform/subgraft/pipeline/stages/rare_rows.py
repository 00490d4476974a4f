"""Which rows of a transferred model are new and rarely met in the task's training text, and how they are trained."""

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
    """What is known of each side's vocabulary: subwords with new rows, ids [n], and the text's count of each token [V].

    A token is counted in the text of its side; where both sides share a table, in both texts.
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
        """upstream, own: the vocabularies before the transfer and after it.  texts: the training text."""
        new = {side: _new_subwords(upstream[side], own[side], rows.copy_shared_tokens) for side in rows.sides}
        return cls(settings, new, {side: count_tokens(own[side], texts[side]) for side in rows.sides})

    @property
    def sizes(self) -> dict[str, int]:
        """How many new subwords of each side's vocabulary are rare in its text."""
        return {side: int((self.counts[side][new] < self.settings.below).sum()) for side, new in self.new.items()}

    def updates(self, model: PreTrainedModel, place_of: PlaceOf = _itself) -> list[RowUpdates]:
        """How the rare rows of each of the model's tables are trained, drawn towards what they are now.

        place_of: the parameter that is trained in a table's place, and where in it the rows of tokens are.
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
        rare = counts < settings.below
        pull = settings.pull * (1.0 - counts[rare] / settings.below)
        strength = torch.from_numpy(pull.astype(np.float32))
        parameter, rows = place_of(table, torch.from_numpy(new[rare]))
        return RowUpdates.of(parameter, rows, settings.learning_rate_factor, strength)


def count_tokens(tokenizer: Tokenizer, texts: Iterable[str]) -> np.ndarray:
    """How often the texts have each token, int64 [V]."""
    counted = Counter(chain.from_iterable(tokenizer.encode_batch(list(texts))))
    return np.array([counted[token] for token in range(len(tokenizer))], dtype=np.int64)


def _new_subwords(upstream: Tokenizer, own: Tokenizer, copy_shared_tokens: bool) -> np.ndarray:
    alignment = align(upstream, own)
    return np.array((alignment if copy_shared_tokens else special_alone(alignment, own)).unseen, dtype=np.int64)
