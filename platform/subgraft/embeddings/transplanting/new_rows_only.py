"""Finetuning of the embeddings of new tokens only: all other weights stay unchanged, to the byte.

The new rows are separate parameters, which are copied into the embedding matrices when a batch is computed. So
gradients, their norm and the optimizer's state cover these rows only: updates of other rows need not be reverted, and
gradient clipping ignores them. It costs one more copy of each matrix and saves the matrix's two moments.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from transformers import PreTrainedModel

from subgraft.base.errors import UserError
from subgraft.config.settings_base import SideName
from subgraft.embeddings.transplanting.tied_to_sources import name_of
from subgraft.modeling.sides import tables_of


class NewRowsOnly(nn.Module):
    """Wraps a loss so that only some tokens' rows are trained: of input, output, and a trainable bias.

    Call `write` before using the model without the loss. Raises UserError if there is no token to train.

    Args:
        loss: a module with the model as its attribute `model`; the model is frozen.
        tokens: ids of each side [n], ascending.
    """

    def __init__(self, loss: nn.Module, tokens: Mapping[SideName, np.ndarray]) -> None:
        super().__init__()
        if not any(len(ids) for ids in tokens.values()):
            raise UserError(
                "train: new-rows, and no token of the vocabulary is new to the model: there is nothing to train",
                hint="Give this system `train: all`, or a vocabulary of its own.",
            )
        self.loss = loss
        self.model.requires_grad_(False)
        self.rows = nn.ParameterDict()
        self._places: dict[str, Tensor] = {}
        for name, ids in tokens.items():
            for part, table in tables_of(self.model, [name]).items():
                if len(ids) and not any(table is placed for placed in self._places.values()):
                    self._add(part.replace(".", "_"), table, torch.from_numpy(ids))
        self._names = {key: name_of(loss, table) for key, table in self._places.items()}

    def _add(self, key: str, table: Tensor, ids: Tensor) -> None:
        self._places[key] = table
        self.rows[key] = nn.Parameter(table.detach()[ids].clone())
        self.register_buffer(f"_{key}", ids, persistent=False)

    @property
    def model(self) -> PreTrainedModel:
        return self.loss.model  # type: ignore[return-value]

    @property
    def trained(self) -> list[Tensor]:
        """The trained rows: one parameter [n, d] for each embedding matrix, and one [n] for a bias."""
        return list(self.rows.values())

    def place_of(self, table: Tensor, tokens: Tensor) -> tuple[Tensor, Tensor]:
        """The parameter that is trained in place of a table of the model, and where in it some tokens' rows are."""
        key = next(key for key, place in self._places.items() if place is table)
        return self.rows[key], torch.searchsorted(self._ids(key), tokens)

    def forward(self, batch: Any) -> dict[str, Tensor]:
        tables = {self._names[key]: self._whole(key) for key in self._places}
        sums: dict[str, Tensor] = torch.func.functional_call(self.loss, tables, (batch,), tie_weights=True)
        return sums

    @torch.no_grad()
    def write(self) -> None:
        """Copy the current rows into the model."""
        for key, place in self._places.items():
            place[self._ids(key)] = self.rows[key].detach()

    def _whole(self, key: str) -> Tensor:
        return self._places[key].index_copy(0, self._ids(key), self.rows[key])

    def _ids(self, key: str) -> Tensor:
        ids: Tensor = getattr(self, f"_{key}")
        return ids
