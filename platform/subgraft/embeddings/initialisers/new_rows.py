"""The interface of initialisers, functions that mix a side's embeddings, and the mean of subwords."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from subgraft.embeddings.generators.generator import RaggedSimilar, mix
from subgraft.embeddings.initialisers.donor_model import Donor
from subgraft.embeddings.initialisers.mixing_matrix import MixingMatrix
from subgraft.modeling.sides import Side
from subgraft.subwords.vocabulary.entry import Entry
from subgraft.subwords.vocabulary.tokenizer import Tokenizer


@dataclass(frozen=True)
class Request:
    """Which rows are wanted, and from what.

    side, source   the upstream side and its vocabulary
    entries        the unseen subwords
    others         number of additional tokens that are not text; a mixture initialises them with the mean row
    scale          standard deviation of `random`
    max_similar    cap on |Sm(w)| for `avg`; a trained generator brings its own
    generator      the directory of a trained generator, for `att`, `patt` and `network`
    common         how common each entry is in the new vocabulary [n], see `generators.network`
    static         the directory of static embeddings of the new vocabulary, for those that need them
    distilled      the directory of this side's distilled rows, for those that need them
    target         the new vocabulary, where there is one
    other_ids      the ids of these tokens in it that are not text
    donor          a second model that has the new tokens, for methods that need one
    origin_checked whether it is known already that the generator is this model's, whose side may be masked here
    """

    side: Side
    source: Tokenizer
    entries: Sequence[Entry]
    others: int
    scale: float
    seed: int
    max_similar: int
    generator: Path | None
    static: Path | None = None
    distilled: Path | None = None
    origin_checked: bool = False
    common: NDArray[np.float32] | None = None
    target: Tokenizer | None = None
    other_ids: Sequence[int] = ()
    donor: Donor | None = None


@dataclass(frozen=True)
class NewRows:
    """Rows of n = len(entries) + others tokens, entries first.

    Attributes:
        input: input embeddings [n, d].
        output: output embeddings [n, d], unless they are tied to the input.
        bias: output bias [n], if the side has one.
        fallbacks: number of tokens that were initialised by a fallback, by its name.
        scale: standard deviation of random rows, if it is one number.
        matrix: the weights of upstream rows, for methods that mix.
    """

    input: Tensor
    output: Tensor | None
    bias: Tensor | None
    fallbacks: Mapping[str, int]
    scale: float | None = None
    matrix: MixingMatrix | None = None


Initialiser = Callable[[Request], NewRows]


@dataclass(frozen=True)
class FloatTables:
    """A side's embeddings in fp32: input [V, d], output [V, d] unless it is tied, bias [V, 1]."""

    input: Tensor
    output: Tensor | None
    bias: Tensor | None

    @classmethod
    def of(cls, side: Side) -> FloatTables:
        output = None if side.output is None or side.tied else side.output.weight.detach().float()
        bias = None if side.bias is None else side.bias.detach().float().reshape(-1, 1)
        return cls(side.input.weight.detach().float(), output, bias)

    def joined(self) -> Tensor:
        """All tables concatenated by columns [V, columns]."""
        return torch.cat([table for table in (self.input, self.output, self.bias) if table is not None], dim=1)

    def rows(self, joined: Tensor, fallbacks: Mapping[str, int]) -> NewRows:
        """Split rows [n, columns] of the joined tables."""
        width = self.input.shape[1]
        output = None if self.output is None else joined[:, width : 2 * width]
        bias = None if self.bias is None else joined[:, -1]
        return NewRows(joined[:, :width], output, bias, fallbacks)


@torch.no_grad()
def mixed(
    side: Side, similar: RaggedSimilar, weigh: Callable[[Tensor], Tensor], fallbacks: Mapping[str, int]
) -> NewRows:
    """Rows mixed from all tables by the weights [nnz] that `weigh` gives for the input table."""
    tables = FloatTables.of(side)
    weights = weigh(tables.input)
    output = None if tables.output is None else mix(tables.output, weights, similar)
    bias = None if tables.bias is None else mix(tables.bias, weights, similar).flatten()
    matrix = MixingMatrix.of_rows(similar, weights)
    return NewRows(mix(tables.input, weights, similar), output, bias, fallbacks, matrix=matrix)


def combined(request: Request, rows: Tensor, tokens: Tensor, weights: Tensor, count: int) -> NewRows:
    """`count` rows, sums of upstream rows by given weights; rows [nnz] ascends. An empty row is the mean row."""
    sizes = torch.bincount(rows, minlength=count)
    offsets = torch.cat([torch.zeros(1, dtype=torch.long), sizes.cumsum(0)])
    ordinary = torch.from_numpy(request.source.ordinary_ids)
    similar = RaggedSimilar(offsets, tokens, torch.zeros_like(tokens), rows, ordinary)
    return mixed(request.side, similar, lambda table: weights, {})


def interleaved(first: NewRows, second: NewRows, places: Sequence[int]) -> NewRows:
    """Both, each row at its place: those of the first one's rows come first in `places`."""
    order = torch.tensor(places, dtype=torch.long).argsort()

    def both(one: Tensor | None, other: Tensor | None) -> Tensor | None:
        return None if one is None or other is None else torch.cat([one, other])[order]

    rows = both(first.input, second.input)
    assert rows is not None
    return NewRows(rows, both(first.output, second.output), both(first.bias, second.bias), {})
