"""A network's input for new tokens: their pieces in the upstream vocabulary, and features of their own one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Any, Self

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from subgraft.subwords.similar_tokens.token_subwords import subwords
from subgraft.subwords.vocabulary.entry import Entry
from subgraft.subwords.vocabulary.tokenizer import Tokenizer

# More pieces than this a token's network does not read; the mean is over these too.
MAX_PIECES = 16
ABSENT = -1
# Begins a word; its length; how common it is; whether that is known.
FEATURES = 4


@dataclass(frozen=True)
class TokenPieces:
    """n new tokens.

    Attributes:
        pieces: int64 [n, P], upstream tokens of each, padded with ABSENT.
        features: float32 [n, FEATURES].
        ordinary: int64 [m], the upstream tokens that are text; tokens without pieces get the mean of their rows.
    """

    pieces: Tensor
    features: Tensor
    ordinary: Tensor

    @classmethod
    def of(
        cls,
        source: Tokenizer,
        entries: Sequence[Entry],
        common: NDArray[np.float32] | None = None,
        others: int = 0,
    ) -> TokenPieces:
        """The pieces and features of entries.

        Args:
            source: the upstream vocabulary.
            entries: the new tokens.
            common: how common each entry is [n], see `commonness`; None: unknown.
            others: number of further tokens that are not text; they come last and have no pieces.
        """
        cut = [parts.ids[:MAX_PIECES] for parts in subwords(source, entries)] + [[]] * others
        pieces = np.full((len(cut), max([1, *map(len, cut)])), ABSENT, dtype=np.int64)
        for row, ids in enumerate(cut):
            pieces[row, : len(ids)] = ids
        features = np.zeros((len(cut), FEATURES), dtype=np.float32)
        known = features[: len(entries)]
        known[:, 0] = [entry.word_initial for entry in entries]
        known[:, 1] = [len(entry.surface) / 6 - 1 for entry in entries]
        if common is not None:
            known[:, 2], known[:, 3] = common, 1.0
        return cls(torch.from_numpy(pieces), torch.from_numpy(features), torch.from_numpy(source.ordinary_ids))

    def __len__(self) -> int:
        return len(self.pieces)

    def take(self, places: Tensor) -> TokenPieces:
        """The tokens at some indices [k], padded to the longest of them."""
        pieces = self.pieces[places]
        longest = int((pieces != ABSENT).sum(dim=1).max()) if len(pieces) else 0
        return TokenPieces(pieces[:, : max(1, longest)], self.features[places], self.ordinary)

    def to(self, device: torch.device | str) -> Self:
        moved: dict[str, Any] = {field.name: getattr(self, field.name).to(device) for field in fields(self)}
        return type(self)(**moved)


def commonness(vocabulary: Tokenizer) -> NDArray[np.float32]:
    """How common each token of a vocabulary is [V], by its rank r among ordinary tokens: 2 - ln(1 + r) / 4.

    By Zipf's law the logarithm of the rank replaces that of the frequency, for all kinds of vocabularies (unigram
    scores, merge order). It is about zero for rank 3,000.
    """
    found = np.zeros(len(vocabulary), dtype=np.float32)
    ordinary = vocabulary.ordinary_ids
    by_rank = ordinary[np.argsort(vocabulary.commonness[ordinary], kind="stable")]
    found[by_rank] = 2.0 - np.log1p(np.arange(len(by_rank))) / 4.0
    return found
