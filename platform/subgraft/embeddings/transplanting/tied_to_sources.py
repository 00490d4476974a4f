"""Finetuning with embeddings that stay tied to the upstream embeddings they were mixed from.

After initialisation each new embedding normally learns from the few sentences with its token only. Here the embedding
matrix remains a mixture, plus a residual:

    E = A U + R        A: mixing matrix [size, V], U: upstream embeddings [V, d], R: residual [size, d]

U and R are trained. A token's gradient reaches the embeddings of its subwords, and so every token that shares a subword
with it. After training, the sum is written into the model, which has its usual shape.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import torch
from torch import Tensor, nn
from transformers import PreTrainedModel

from subgraft.config.settings_base import SideName
from subgraft.embeddings.initialisers.mixing_matrix import PARTS, MixingMatrix
from subgraft.modeling.sides import Side, side


class TiedToSources(nn.Module):
    """Wraps a loss so that embedding matrices are trained as mixtures of upstream embeddings plus residuals.

    Call `write` before using the model without the loss.

    Args:
        loss: a module with the model as its attribute `model`.
        upstream: the model whose embeddings are mixed.
        matrices: the mixing matrix of each side.
    """

    def __init__(self, loss: nn.Module, upstream: PreTrainedModel, matrices: Mapping[SideName, MixingMatrix]) -> None:
        super().__init__()
        self.loss = loss
        self.tables = nn.ModuleDict()
        self._places: dict[str, Tensor] = {}
        for name, matrix in matrices.items():
            for part, table, origin in _pairs(side(self.model, name), side(upstream, name)):
                if any(table is placed for placed in self._places.values()):
                    continue  # encoder and decoder share it
                self._places[f"{name}_{part}"] = table
                self.tables[f"{name}_{part}"] = AttachedTable(matrix, origin, table)
        for table in self._places.values():
            table.requires_grad_(False)
        self._names = {key: name_of(loss, table) for key, table in self._places.items()}

    @property
    def model(self) -> PreTrainedModel:
        return self.loss.model  # type: ignore[return-value]

    @property
    def rests(self) -> list[Tensor]:
        """The remainder that each table adds to its mixture."""
        return [table.rest for table in self.tables.values()]  # type: ignore[misc]

    def place_of(self, table: Tensor, tokens: Tensor) -> tuple[Tensor, Tensor]:
        """The trained remainder of a tied table, or else the table itself, and the places of the tokens' rows."""
        key = next((key for key, place in self._places.items() if place is table), None)
        return (table if key is None else self.tables[key].rest), tokens  # type: ignore[return-value]

    def forward(self, batch: Any) -> dict[str, Tensor]:
        tables = {self._names[key]: table() for key, table in self.tables.items()}
        sums: dict[str, Tensor] = torch.func.functional_call(self.loss, tables, (batch,), tie_weights=True)
        return sums

    @torch.no_grad()
    def write(self) -> None:
        """Write the current sums into the model."""
        for key, place in self._places.items():
            place.copy_(self.tables[key]())


class AttachedTable(nn.Module):
    """One table as matrix x upstream + rest; at the beginning it is the given table."""

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


def name_of(module: nn.Module, parameter: Tensor) -> str:
    """The name of a parameter in a module."""
    return next(name for name, candidate in module.named_parameters() if candidate is parameter)
