"""The interface of initialisers, rows that are mixed from upstream rows by weights, and the mean of subwords."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from safetensors.torch import load_file, save_file
from torch import Tensor

from subgraft.config.settings_base import SideName
from subgraft.embeddings.initialisers.donor_model import Donor
from subgraft.modeling.sides import FloatTables, Side
from subgraft.subwords.similar_tokens.finder import count_fallbacks
from subgraft.subwords.similar_tokens.ragged import ragged_ranges
from subgraft.subwords.similar_tokens.token_subwords import partial_characters, subwords
from subgraft.subwords.vocabulary.alignment import Alignment
from subgraft.subwords.vocabulary.entry import Entry
from subgraft.subwords.vocabulary.tokenizer import Tokenizer

MATRICES = "matrices.safetensors"
PARTS = ("offsets", "tokens", "weights", "ordinary")


@dataclass(frozen=True)
class InitialiserInputs:
    """The tokens that need rows, and the inputs of initialisers.

    Attributes:
        side: the upstream side.
        source: its vocabulary.
        entries: the unseen subwords.
        others: number of further tokens that are not text: parts of characters start as the mean of their pieces, the
            rest as the mean row.
        scale: standard deviation of `random`.
        seed: of random methods.
        max_similar: limit of |Sm(w)| for `avg`; a trained generator has its own.
        generator: directory of a trained generator, for `att`, `patt` and `network`.
        static: directory of static embeddings of the new vocabulary.
        distilled: directory of this side's learned rows.
        origin_checked: the generator is known to be this model's; `side` may be a masked copy.
        common: how common each entry is in the new vocabulary [n], see `generators.network`.
        target: the new vocabulary, where there is one.
        other_ids: ids of its tokens that are not text.
        donor: a second model that has the new tokens, for methods that need one.
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
class MixingMatrix:
    """A sparse matrix [size, V]: row i is the sum of weights[k] x upstream row tokens[k], k in offsets[i:i + 1].

    offsets int64 [size + 1], tokens int64 [nnz], weights fp32 [nnz]. An empty row is the mean of the rows of the
    upstream tokens `ordinary`, int64 [m].
    """

    offsets: Tensor
    tokens: Tensor
    weights: Tensor
    ordinary: Tensor

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def mix(self, table: Tensor) -> Tensor:
        """Mix rows [size, d] from a table [V, d], with gradients to the table."""
        return weighted_sums(table, self.offsets, self.tokens, self.weights, self.ordinary)

    def followed_by(self, other: MixingMatrix) -> MixingMatrix:
        """Both matrices as one, with the rows of the other last."""
        return MixingMatrix(
            torch.cat([self.offsets, self.offsets[-1] + other.offsets[1:]]),
            torch.cat([self.tokens, other.tokens]),
            torch.cat([self.weights, other.weights]),
            self.ordinary,
        )


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

    @classmethod
    def of_joined(cls, joined: Tensor, tables: FloatTables, fallbacks: Mapping[str, int]) -> NewRows:
        """Split rows [n, columns] that are concatenated like `FloatTables.joined`."""
        width = tables.input.shape[1]
        output = None if tables.output is None else joined[:, width : 2 * width]
        bias = None if tables.bias is None else joined[:, -1]
        return cls(joined[:, :width], output, bias, fallbacks)


Initialiser = Callable[[InitialiserInputs], NewRows]


@torch.no_grad()
def mix_rows(side: Side, matrix: MixingMatrix, fallbacks: Mapping[str, int]) -> NewRows:
    """Rows of all of a side's tables, mixed by the same weights."""
    tables = FloatTables.of(side)
    output = None if tables.output is None else matrix.mix(tables.output)
    bias = None if tables.bias is None else matrix.mix(tables.bias).flatten()
    return NewRows(matrix.mix(tables.input), output, bias, fallbacks, matrix=matrix)


def combine_rows(request: InitialiserInputs, rows: Tensor, tokens: Tensor, weights: Tensor, count: int) -> NewRows:
    """Combine upstream rows to `count` new rows.

    Args:
        request: The request for the rows.
        rows: int64 [nnz], the new row of each weight, ascending. A row without weights becomes the mean row.
        tokens: int64 [nnz], the upstream token of each weight.
        weights: The weights [nnz].
        count: The number of new rows.
    """
    sizes = torch.bincount(rows, minlength=count)
    offsets = torch.cat([torch.zeros(1, dtype=torch.long), sizes.cumsum(0)])
    ordinary = torch.from_numpy(request.source.ordinary_ids)
    return mix_rows(request.side, MixingMatrix(offsets, tokens, weights.float(), ordinary), {})


def interleave_rows(first: NewRows, second: NewRows, places: Sequence[int]) -> NewRows:
    """The rows of both in one order; `places` has the index of each row of `first`, then of each row of `second`."""
    order = torch.tensor(places, dtype=torch.long).argsort()

    def join(first_part: Tensor | None, second_part: Tensor | None) -> Tensor | None:
        return None if first_part is None or second_part is None else torch.cat([first_part, second_part])[order]

    rows = join(first.input, second.input)
    assert rows is not None
    return NewRows(rows, join(first.output, second.output), join(first.bias, second.bias), {})


def mix_subwords(request: InitialiserInputs) -> NewRows:
    """The mean of each token's upstream subwords. It is an initialiser, and the fallback of other initialisers.

    Tokens without subwords fall back to their characters, then bytes, then the mean row. A byte-level token that is a
    part of a character is the mean of its upstream pieces.
    """
    parts = subwords(request.source, request.entries)
    matrix = _means(request, [*(part.ids for part in parts), *other_pieces(request)])
    return mix_rows(request.side, matrix, count_fallbacks(part.fallback for part in parts))


def mix_others(request: InitialiserInputs) -> MixingMatrix:
    """The rows of the tokens that are not text alone, as in `mix_subwords`."""
    return _means(request, other_pieces(request))


def other_pieces(request: InitialiserInputs) -> list[list[int]]:
    """The upstream pieces of each token that is not text: those of a part of a character; none of other tokens."""
    if request.target is None:
        return [[] for _ in range(request.others)]
    return partial_characters(request.source, request.target, request.other_ids)


def _means(request: InitialiserInputs, pieces: Sequence[Sequence[int]]) -> MixingMatrix:
    counts = torch.tensor([len(ids) for ids in pieces], dtype=torch.long)
    offsets = torch.cat([torch.zeros(1, dtype=torch.long), counts.cumsum(0)])
    tokens = torch.tensor([i for ids in pieces for i in ids], dtype=torch.long)
    weights = (1.0 / counts.float()).repeat_interleave(counts)
    return MixingMatrix(offsets, tokens, weights, torch.from_numpy(request.source.ordinary_ids))


def full_matrix(alignment: Alignment, rows: MixingMatrix) -> MixingMatrix:
    """The matrix of all tokens: those with an origin copy its row, all others follow `rows`, in order."""
    origins = alignment.origins
    counts = (origins >= 0).astype(np.int64)
    new = np.array([*alignment.unseen, *alignment.others], dtype=np.int64)
    counts[new] = rows.offsets.diff().numpy()
    offsets = np.concatenate([[0], counts.cumsum()])
    tokens, weights = np.empty(offsets[-1], dtype=np.int64), np.ones(offsets[-1], dtype=np.float32)
    copied = np.flatnonzero(origins >= 0)
    tokens[offsets[copied]] = origins[copied]
    positions = ragged_ranges(offsets[new], counts[new])
    tokens[positions], weights[positions] = rows.tokens.numpy(), rows.weights.numpy()
    return MixingMatrix(torch.from_numpy(offsets), torch.from_numpy(tokens), torch.from_numpy(weights), rows.ordinary)


def save_matrices(matrices: Mapping[SideName, MixingMatrix], directory: Path) -> None:
    tensors = {f"{side}.{part}": getattr(matrix, part) for side, matrix in matrices.items() for part in PARTS}
    # Copies, because sides may share one matrix, which safetensors would refuse.
    save_file({name: tensor.contiguous().clone() for name, tensor in tensors.items()}, directory / MATRICES)


def load_matrix(directory: Path, side: SideName) -> MixingMatrix:
    tensors = load_file(directory / MATRICES)
    return MixingMatrix(*(tensors[f"{side}.{part}"] for part in PARTS))


def weighted_sums(table: Tensor, offsets: Tensor, tokens: Tensor, weights: Tensor, ordinary: Tensor) -> Tensor:
    """Weighted sums [n, k] of rows of a table [V, k], ragged by offsets [n + 1]; an empty sum is the mean row."""
    sums = F.embedding_bag(tokens, table, offsets, mode="sum", per_sample_weights=weights, include_last_offset=True)
    empty = offsets.diff() == 0
    return torch.where(empty[:, None], mean_row(table, ordinary), sums) if bool(empty.any()) else sums


def mean_row(table: Tensor, ordinary: Tensor) -> Tensor:
    """The mean [k] of ordinary tokens' rows [m] of a table [V, k]; special tokens and spare rows are excluded."""
    return F.embedding_bag(ordinary[None], table, mode="mean")[0]
