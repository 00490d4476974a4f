"""Finetuning of embedding matrices that are computed from other parameters for each batch.

- `TiedToSources`: new embeddings stay tied to the upstream embeddings that they were mixed from.
- `NewRowsOnly`: only the rows of new tokens are trained; all other weights stay unchanged, to the byte.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from functools import cached_property
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from transformers import PreTrainedModel

from subgraft.base.errors import UserError
from subgraft.config.settings_base import SideName
from subgraft.embeddings.initialisers.new_rows import PARTS, MixingMatrix
from subgraft.modeling.sides import Side, side, tables_of


class ComputedTables(nn.Module, ABC):
    """Wraps a loss whose attribute `model` is the model. Call `write` before using the model without this wrapper."""

    def __init__(self, loss: nn.Module) -> None:
        super().__init__()
        self.loss = loss
        self._computed: dict[str, Tensor] = {}  # the model's tables that are computed

    @property
    def model(self) -> PreTrainedModel:
        return self.loss.model  # type: ignore[return-value]

    def forward(self, batch: Any) -> dict[str, Tensor]:
        tables = {self._names[key]: self._table(key) for key in self._computed}
        sums: dict[str, Tensor] = torch.func.functional_call(self.loss, tables, (batch,), tie_weights=True)
        return sums

    @torch.no_grad()
    def write(self) -> None:
        """Write the current tables into the model."""
        for key, table in self._computed.items():
            table.copy_(self._table(key))

    @cached_property
    def _names(self) -> dict[str, str]:
        """The names of the computed tables in the loss."""
        names = {id(parameter): name for name, parameter in self.loss.named_parameters()}
        return {key: names[id(table)] for key, table in self._computed.items()}

    @abstractmethod
    def _table(self, key: str) -> Tensor:
        """The current table, with gradients to the trained parameters."""

    def _has(self, table: Tensor) -> bool:
        """Whether the table is already among the computed ones, because encoder and decoder share it."""
        return any(table is computed for computed in self._computed.values())


class TiedToSources(ComputedTables):
    """Embedding matrices remain mixtures of upstream embeddings, plus a residual.

        E = A U + R        A: mixing matrix [size, V], U: upstream embeddings [V, d], R: residual [size, d]

    U and R are trained. Otherwise each new embedding learns from the few sentences with its token only. Here its
    gradient reaches the embeddings of its subwords, and so every token that shares a subword with it.

    Args:
        loss: a module with the model as its attribute `model`.
        upstream: the model whose embeddings are mixed.
        matrices: the mixing matrix of each side.
    """

    def __init__(self, loss: nn.Module, upstream: PreTrainedModel, matrices: Mapping[SideName, MixingMatrix]) -> None:
        super().__init__(loss)
        self.tables = nn.ModuleDict()
        for name, matrix in matrices.items():
            for part, table, origin in _pairs(side(self.model, name), side(upstream, name)):
                if not self._has(table):
                    self._computed[f"{name}_{part}"] = table
                    self.tables[f"{name}_{part}"] = AttachedTable(matrix, origin, table)
        for table in self._computed.values():
            table.requires_grad_(False)

    @property
    def rests(self) -> list[Tensor]:
        """The remainder that each table adds to its mixture."""
        return [table.rest for table in self.tables.values()]  # type: ignore[misc]

    def place_of(self, table: Tensor, tokens: Tensor) -> tuple[Tensor, Tensor]:
        """The parameter that contains the tokens' rows (a tied table's remainder, or the table), and their indices."""
        key = next((key for key, computed in self._computed.items() if computed is table), None)
        return (table if key is None else self.tables[key].rest), tokens  # type: ignore[return-value]

    def _table(self, key: str) -> Tensor:
        table: Tensor = self.tables[key]()
        return table


class AttachedTable(nn.Module):
    """One table as matrix x upstream + rest. Initially it equals `table`."""

    def __init__(self, matrix: MixingMatrix, upstream: Tensor, table: Tensor) -> None:
        super().__init__()
        for part in PARTS:
            self.register_buffer(part, getattr(matrix, part), persistent=False)
        self.upstream = nn.Parameter(upstream.detach().float().clone())
        with torch.no_grad():
            self.rest = nn.Parameter(table.detach().float() - matrix.mix(self.upstream))

    def forward(self) -> Tensor:
        matrix = MixingMatrix(*(getattr(self, part) for part in PARTS))
        return matrix.mix(self.upstream) + self.rest


def _pairs(new: Side, upstream: Side) -> Iterator[tuple[str, Tensor, Tensor]]:
    """The embedding matrices of a side that are separate parameters, with the upstream matrices they are mixed from."""
    yield "input", new.input.weight, upstream.input.weight
    if new.output is not None and upstream.output is not None and not new.tied:
        yield "output", new.output.weight, upstream.output.weight


class NewRowsOnly(ComputedTables):
    """Only some tokens' rows are trained: of input, output, and a trainable bias.

    They are separate parameters, which are copied into the embedding matrices when a batch is computed. So gradients,
    their norm and the optimizer's state cover these rows only: updates of other rows need not be reverted, and gradient
    clipping ignores them. It costs one more copy of each matrix and saves the matrix's two moments.

    Raises UserError if there is no token to train.

    Args:
        loss: a module with the model as its attribute `model`; the model is frozen.
        tokens: ids of each side [n], ascending.
    """

    def __init__(self, loss: nn.Module, tokens: Mapping[SideName, np.ndarray]) -> None:
        super().__init__(loss)
        if not any(len(ids) for ids in tokens.values()):
            raise UserError(
                "train: new-rows has nothing to train, because no token of the vocabulary is new to the model",
                hint="Give this system `train: all`, or a vocabulary of its own.",
            )
        self.model.requires_grad_(False)
        self.rows = nn.ParameterDict()
        for name, ids in tokens.items():
            for part, table in tables_of(self.model, [name]).items():
                if len(ids) and not self._has(table):
                    key = part.replace(".", "_")
                    self._computed[key], rows = table, torch.from_numpy(ids)
                    self.rows[key] = nn.Parameter(table.detach()[rows].clone())
                    self.register_buffer(f"_{key}", rows, persistent=False)

    @property
    def trained(self) -> list[Tensor]:
        """The trained rows: one parameter [n, d] for each embedding matrix, and one [n] for a bias."""
        return list(self.rows.values())

    def place_of(self, table: Tensor, tokens: Tensor) -> tuple[Tensor, Tensor]:
        """The parameter that is trained in place of a table of the model, and the indices of the tokens' rows in it."""
        key = next(key for key, computed in self._computed.items() if computed is table)
        return self.rows[key], torch.searchsorted(self._ids(key), tokens)

    def _table(self, key: str) -> Tensor:
        return self._computed[key].index_copy(0, self._ids(key), self.rows[key])

    def _ids(self, key: str) -> Tensor:
        ids: Tensor = getattr(self, f"_{key}")
        return ids
