"""The input embeddings of a new vocabulary while those of its new tokens are trained in the frozen model."""

from __future__ import annotations

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from subgraft.embeddings.initialisers.new_rows import InitialiserInputs, mix_subwords
from subgraft.embeddings.transplanting.transplant import table_over
from subgraft.modeling.sides import Side, input_scale
from subgraft.subwords.similar_tokens.token_subwords import spellable_unseen_tokens
from subgraft.subwords.vocabulary.alignment import align
from subgraft.subwords.vocabulary.tokenizer import Tokenizer


@dataclass(frozen=True)
class StudentTable:
    """The new vocabulary's input embeddings before training.

    Attributes:
        table: [V, d], rows of seen tokens are copied, those of unseen ones are the mean of their subwords.
        tokens: ids of the tokens to train: unseen ones, except those that the teacher reads as unknown.
    """

    table: Tensor
    tokens: tuple[int, ...]

    @classmethod
    @torch.no_grad()
    def of(cls, side: Side, source: Tokenizer, target: Tokenizer) -> StudentTable:
        alignment = align(source, target)
        entries = [entry for token in alignment.unseen if (entry := target.entries[token]) is not None]
        request = InitialiserInputs(side, source, entries, len(alignment.others), 0.0, 0, 0, None)
        table = table_over(side.input.weight.detach(), alignment, mix_subwords(request).input)
        return cls(table, spellable_unseen_tokens(source, target))


class StudentEmbeddings(nn.Module):
    """Input embeddings whose parameter is added to the rows of new tokens [K, d] and starts at zero.

    Therefore a row that no sentence trains remains the mean of its subwords, with any optimizer.
    """

    def __init__(self, model: nn.Module, side: Side, start: StudentTable) -> None:
        super().__init__()
        self.added = nn.Parameter(torch.zeros(len(start.tokens), start.table.shape[1]))
        row = torch.full((len(start.table),), -1)
        row[list(start.tokens)] = torch.arange(len(start.tokens))
        self.register_buffer("_table", start.table, persistent=False)
        self.register_buffer("_row", row, persistent=False)
        self._start = start
        self.scale = input_scale(model, side)

    def forward(self, ids: Tensor) -> Tensor:
        """The model's input [B, T, d] for ids of the new vocabulary."""
        table: Tensor = self._table  # type: ignore[assignment]
        rows = self._row[ids]  # type: ignore[index]
        added = torch.where((rows >= 0)[..., None], F.embedding(rows.clamp(min=0), self.added), 0.0)
        return ((F.embedding(ids, table) + added) * self.scale).to(table.dtype)

    @torch.no_grad()
    def trained(self) -> tuple[Tensor, Tensor]:
        """Ids [n] and rows [n, d] of the tokens that training has changed, in fp32."""
        added = self.added.cpu()
        changed = (added != 0).any(dim=1)
        tokens = torch.tensor(self._start.tokens, dtype=torch.long)[changed]
        return tokens, self._start.table[tokens].float() + added[changed]
