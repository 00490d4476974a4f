"""Mixing matrices: the sparse weights by which new embeddings were mixed from upstream embeddings."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from safetensors.torch import load_file, save_file
from torch import Tensor

from subgraft.config.settings_base import SideName
from subgraft.embeddings.generators.generator import RaggedSimilar, weighted_sums
from subgraft.subwords.similar_tokens.ragged import ragged_ranges
from subgraft.subwords.vocabulary.alignment import Alignment

MATRICES = "matrices.safetensors"
PARTS = ("offsets", "tokens", "weights", "ordinary")


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

    @classmethod
    def of_rows(cls, similar: RaggedSimilar, weights: Tensor) -> MixingMatrix:
        return cls(similar.offsets, similar.token_ids, weights.detach().float(), similar.ordinary)

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def mix(self, table: Tensor) -> Tensor:
        """Mix rows [size, d] from a table [V, d], with gradients to the table."""
        return weighted_sums(table, self.offsets, self.tokens, self.weights, self.ordinary)


def whole_matrix(alignment: Alignment, rows: MixingMatrix) -> MixingMatrix:
    """The matrix of all tokens: those with an origin copy its row, all others follow `rows`, in order."""
    origins = alignment.origins
    counts = (origins >= 0).astype(np.int64)
    new = np.array([*alignment.unseen, *alignment.others], dtype=np.int64)
    counts[new] = rows.offsets.diff().numpy()
    offsets = np.concatenate([[0], counts.cumsum()])
    tokens, weights = np.empty(offsets[-1], dtype=np.int64), np.ones(offsets[-1], dtype=np.float32)
    copied = np.flatnonzero(origins >= 0)
    tokens[offsets[copied]] = origins[copied]
    places = ragged_ranges(offsets[new], counts[new])
    tokens[places], weights[places] = rows.tokens.numpy(), rows.weights.numpy()
    return MixingMatrix(torch.from_numpy(offsets), torch.from_numpy(tokens), torch.from_numpy(weights), rows.ordinary)


def save_matrices(matrices: Mapping[SideName, MixingMatrix], directory: Path) -> None:
    tensors = {f"{side}.{part}": getattr(matrix, part) for side, matrix in matrices.items() for part in PARTS}
    # Copies, because sides may share one matrix, which safetensors would refuse.
    save_file({name: tensor.contiguous().clone() for name, tensor in tensors.items()}, directory / MATRICES)


def load_matrix(directory: Path, side: SideName) -> MixingMatrix:
    tensors = load_file(directory / MATRICES)
    return MixingMatrix(*(tensors[f"{side}.{part}"] for part in PARTS))
